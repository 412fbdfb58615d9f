"""The one event stream of an answer: what a model wrote, by what it is. Every API is a view of these values."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A stretch of what the model thought before it."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call of a tool, as soon as its name is complete. `index` counts the calls of an answer from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A stretch of the JSON object that a call's arguments are; byte for byte where the model wrote JSON itself."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The last of a call. Not `is_complete`: the output ended, or was no longer a call, before its arguments did."""

    index: int
    is_complete: bool


Part = Text | Reasoning | CallStarted | CallArguments | CallEnded


def joined(parts: Iterable[Part]) -> list[Part]:
    """With neighbours of one kind made one, and without stretches of nothing."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Text | Reasoning | CallArguments) and not part.text:
            continue
        last = found[-1] if found else None
        if isinstance(part, Text) and isinstance(last, Text):
            found[-1] = Text(last.text + part.text)
        elif isinstance(part, Reasoning) and isinstance(last, Reasoning):
            found[-1] = Reasoning(last.text + part.text)
        elif isinstance(part, CallArguments) and isinstance(last, CallArguments) and part.index == last.index:
            found[-1] = CallArguments(part.index, last.text + part.text)
        else:
            found.append(part)
    return found
