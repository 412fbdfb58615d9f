"""Calls whose name stands before a JSON object of arguments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from dayzero.grammar.envelope import arguments
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import (
    End,
    Malformed,
    Markers,
    Name,
    Reader,
    Window,
    literal,
    peek,
    spaces,
    until,
)

_MAX_NAME = 256  # characters, with what may stand around it


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """<begin>f<separator>{...}<end>, perhaps several of them up to <section end>.

    begin         before each call; "": the trigger was it
    separators    between name and arguments, any one of them; without any, the brace itself ends the name
    fences        around the object, which may be missing
    end           after each call; "": nothing
    section_ends  after the last one, any one of them; without any, a call is alone
    head          what stands between, {name} in it, and perhaps {index}, the number of calls before it; what is around
                  the name may be missing
    """

    begin: str = ""
    separators: tuple[str, ...] = ()
    fences: tuple[str, str] | None = None
    end: str = ""
    section_ends: tuple[str, ...] = ()
    head: str = "{name}"

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for mark in (self.begin, *self.separators, self.end, *self.section_ends) if mark)

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:  # noqa: ARG002
        begins = not self.begin or trigger == self.begin
        while True:
            if not begins:
                yield from spaces(window)
                if (yield from literal(window, self.begin, *self.section_ends)) != self.begin:
                    return
            yield from self._call(window)
            if not self.section_ends:
                return
            begins = False

    def _call(self, window: Window) -> Reader:
        ends = Markers((*self.separators, "{"), window.tokens)
        text, separator = yield from until(window, ends, _MAX_NAME, keep="{")
        name = _name_pattern(self.head, self.fences[0] if self.fences else "").fullmatch(text.strip())
        if name is None:
            raise Malformed
        yield Name(name[1])
        if separator != "{":
            yield from spaces(window)
        if self.fences is not None and window.text[0] != "{":
            yield from literal(window, self.fences[0])
            yield from spaces(window)
        yield from arguments(window)
        yield End()
        if self.fences is not None:
            yield from spaces(window)
            if (yield from peek(window, 1)) == self.fences[1][0]:
                yield from literal(window, self.fences[1])
        if self.end:
            yield from spaces(window)
            yield from literal(window, self.end)


@cache
def _name_pattern(head: str, fence: str) -> re.Pattern[str]:
    """Finds the name in what stands before arguments or a fence: white space and all but the name may be missing."""
    before, after = (part.strip() for part in head.split("{name}"))
    index = r"\d+".join(re.escape(part) for part in after.split("{index}"))
    return re.compile(rf"(?:{re.escape(before)})?\s*([^\s{{}}]+?)\s*(?:{index})?\s*(?:{re.escape(fence)})?")
