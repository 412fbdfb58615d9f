"""The vocabulary of workloads: a session is a few turns that are sent one after the other, each when the last ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Message = Mapping[str, object]
Prompt = str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """One request to /v1/completions. `max_tokens` None: the run's default."""

    prompt: Prompt
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Chat:
    """One request to /v1/chat/completions: `messages` join what the session said before.

    The history of the next turn holds `reply` in the place of the answer; None: the answer that came.
    """

    messages: tuple[Message, ...]
    reply: str | None = None
    max_tokens: int | None = None


Turn = Completion | Chat


@dataclass(frozen=True, slots=True)
class Session:
    """Turns in order. Sessions of one `group` are meant to share the beginning of their prompts."""

    turns: tuple[Turn, ...]
    group: int


class Workload(Protocol):
    """An endless list of sessions: pure, so that any index can be asked for, in any order, twice."""

    def session(self, index: int) -> Session: ...


class AsChat:
    """A workload whose text completions are sent as the user's message of a chat instead."""

    def __init__(self, inner: Workload) -> None:
        self._inner = inner

    def session(self, index: int) -> Session:
        session = self._inner.session(index)
        return Session(tuple(_as_chat(turn) for turn in session.turns), session.group)


def _as_chat(turn: Turn) -> Turn:
    if isinstance(turn, Completion) and isinstance(turn.prompt, str):
        return Chat(({"role": "user", "content": turn.prompt},), max_tokens=turn.max_tokens)
    return turn
