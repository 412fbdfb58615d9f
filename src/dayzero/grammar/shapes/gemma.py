"""Calls in gemma 4's own notation."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.grammar.gemma_object import STRING_MARK, GemmaObject
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import (
    End,
    Malformed,
    Markers,
    Name,
    Reader,
    Window,
    converted,
    literal,
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
        yield from converted(window, reader)
        yield End()
        yield from spaces(window)
        yield from literal(window, self.end)
