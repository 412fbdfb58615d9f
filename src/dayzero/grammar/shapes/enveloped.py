"""Calls that are JSON objects with a name in them, each between two markers or in a list."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.grammar.envelope import envelope
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import Reader, Truncated, Window, ahead, literal, passed, spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Enveloped:
    """<tool_call>{"name": "f", "arguments": {...}}</tool_call>

    The end may be missing where the output ends or another call begins.
    """

    end: str
    arguments_key: str = "arguments"

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.end,)

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:  # noqa: ARG002
        yield from spaces(window)
        yield from envelope(window, needs_arguments=False)
        yield from spaces(window)
        if (yield from ahead(window, self.end, trigger)) == self.end:
            window.take(len(self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopedList:
    """[{"name": "f", "arguments": {...}}, ...]

    end   what may follow the list
    """

    end: str = ""
    arguments_key: str = "arguments"

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.end,) if self.end else ()

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:  # noqa: ARG002
        yield from spaces(window)
        yield from literal(window, "[")
        yield from spaces(window)
        while not window.text.startswith("]"):
            yield from envelope(window, needs_arguments=False)
            yield from spaces(window)
            if (yield from literal(window, ",", "]")) == "]":
                break
            yield from spaces(window)
        else:
            window.take(1)
        if self.end:
            yield from passed(window, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BareEnvelopes:
    """{"name": "f", "parameters": {...}}; {"name": ...

    As the whole of an answer, one call or several, between semicolons, commas or nothing.
    """

    arguments_key: str = "parameters"

    @property
    def marks(self) -> tuple[str, ...]:
        return ()

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:  # noqa: ARG002
        yield from spaces(window)
        yield from envelope(window, needs_arguments=True)
        while True:
            try:
                yield from spaces(window)
            except Truncated:
                return
            if window.text[0] in ";,":
                window.take(1)
            elif window.text[0] == "{":
                yield from envelope(window, needs_arguments=True)
            else:
                return
