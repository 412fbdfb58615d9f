"""HumanEval: 164 Python functions to complete from their signature and docstring."""

import msgspec

from dayzero.workshop.bench.workloads.dataset import read_rows, shuffled
from dayzero.workshop.bench.workloads.session import Completion, Session


class _Problem(msgspec.Struct):
    prompt: str


class HumanEval:
    """One completion a session; after 164 sessions the problems come round again."""

    def __init__(self, *, seed: int) -> None:
        self._problems = shuffled(read_rows("humaneval.jsonl.gz", _Problem), seed)

    def session(self, index: int) -> Session:
        problem = self._problems[index % len(self._problems)]
        return Session((Completion(problem.prompt),), group=index)
