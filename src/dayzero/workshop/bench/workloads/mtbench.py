"""MT-Bench: 80 chats of two turns. The second turn carries the model's own first answer."""

from dayzero.workshop.bench.workloads.dataset import Question, read_rows, shuffled
from dayzero.workshop.bench.workloads.session import Chat, Session


class MTBench:
    """Two requests a session; after 80 sessions the questions come round again."""

    def __init__(self, *, seed: int) -> None:
        self._questions = shuffled(read_rows("mtbench.jsonl.gz", Question), seed)

    def session(self, index: int) -> Session:
        question = self._questions[index % len(self._questions)]
        turns = tuple(Chat(({"role": "user", "content": text},)) for text in question.turns)
        return Session(turns, group=index)
