"""Calls in gemma 4's own notation."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.grammar.gemma_object import STRING_MARK, GemmaObject
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import (
    Arguments,
    End,
    Malformed,
    Markers,
    Name,
    Reader,
    Window,
    literal,
    more,
    spaces,
    until,
)

_MAX_NAME = 256  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """call:f{city:<|"|>Köln<|"|>,days:2}<end>"""

    end: str

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.end, STRING_MARK)

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:  # noqa: ARG002
        yield from spaces(window)
        yield from literal(window, "call:")
        name, _ = yield from until(window, Markers(("{",), window.tokens), _MAX_NAME, keep="{")
        if not name.strip():
            raise Malformed
        yield Name(name.strip())
        reader = GemmaObject()
        while True:
            said, count = reader.feed(window.text)
            window.take(count)
            if said:
                yield Arguments(said)
            if reader.is_broken:
                raise Malformed
            if reader.is_complete:
                break
            yield from more(window)
        yield End()
        yield from spaces(window)
        yield from literal(window, self.end)
