"""Reading an output with a parser, whole or in pieces."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text
from tests.grammar.splits import splits_of


class Parser(Protocol):
    def push(self, pieces: Sequence[str]) -> list[Part]: ...

    def finish(self) -> list[Part]: ...


@dataclass
class ReadCall:
    name: str
    arguments: str = ""
    is_complete: bool | None = None  # not before it ended


@dataclass
class Answer:
    """What the parts of an output say together."""

    text: str = ""
    reasoning: str = ""
    calls: list[ReadCall] = field(default_factory=list)

    def add(self, part: Part) -> None:
        match part:
            case Text(text):
                self.text += text
            case Reasoning(text):
                self.reasoning += text
            case CallStarted(index, name):
                assert index == len(self.calls), "calls are counted as they start"
                assert all(call.is_complete is not None for call in self.calls), "one call at a time"
                self.calls.append(ReadCall(name))
            case CallArguments(index, text):
                assert text, "no empty stretches"
                assert self.calls[index].is_complete is None
                self.calls[index].arguments += text
            case CallEnded(index, is_complete):
                assert self.calls[index].is_complete is None, "a call ends once"
                self.calls[index].is_complete = is_complete


def read(parser: Parser, pieces: Iterable[str]) -> Answer:
    return read_groups(parser, ([piece] for piece in pieces))


def read_groups(parser: Parser, groups: Iterable[Sequence[str]]) -> Answer:
    """Of pieces that come together."""
    answer = Answer()
    for group in groups:
        for part in parser.push(group):
            answer.add(part)
    for part in parser.finish():
        answer.add(part)
    assert all(call.is_complete is not None for call in answer.calls), "every call ends"
    return answer


def read_every_way(make: Callable[[], Parser], output: str) -> Answer:
    """The answer, which is the same however the output was cut."""
    answer = read(make(), [output])
    for pieces in splits_of(output):
        assert read(make(), pieces) == answer, pieces
    return answer
