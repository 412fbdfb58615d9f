"""A coding agent's conversation: each request repeats all that was said and adds the next result.

The history holds the recorded replies, not the model's, so that every server gets the same prompts.
"""

import msgspec

from dayzero.workshop.bench.workloads.dataset import read_rows
from dayzero.workshop.bench.workloads.session import Chat, Message, Session


class _Line(msgspec.Struct):
    role: str
    content: str


class Agentic:
    """Up to `max_turns` requests a session (the recording has 30; its last prompts are some 17,000 tokens long)."""

    def __init__(self, *, max_turns: int) -> None:
        self._turns = _turns(read_rows("agentic.json.gz", _Line))[:max_turns]

    def session(self, index: int) -> Session:
        return Session(self._turns, group=index)


def _turns(lines: list[_Line]) -> tuple[Chat, ...]:
    """Cut the recording before each reply of the assistant; what follows the last reply is a turn too."""
    turns: list[Chat] = []
    added: list[Message] = []
    for line in lines:
        if line.role == "assistant":
            turns.append(Chat(tuple(added), reply=line.content))
            added = []
        else:
            added.append({"role": line.role, "content": line.content})
    if added:
        turns.append(Chat(tuple(added)))
    return tuple(turns)
