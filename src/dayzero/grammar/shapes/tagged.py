"""Calls whose arguments stand between tags, one by one."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.grammar.envelope import arguments
from dayzero.grammar.tagged_object import TaggedObject, Tags
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import (
    End,
    Malformed,
    Markers,
    Name,
    Reader,
    Window,
    ahead,
    converted,
    literal,
    spaces,
    until,
)

_MAX_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """<begin>f<name end> keys and values <tags.end> <end>

    begin         before each name; "": the trigger was it
    name_end      after it; "": whatever tag comes next
    section_end   after the last call of a trigger; "": after each `tags.end`
    takes_json    one JSON object may stand there instead of keys and values
    """

    begin: str
    name_end: str
    tags: Tags
    section_end: str = ""
    takes_json: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for mark in (self.section_end, self.tags.end) if mark)

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:
        begins = not self.begin
        while True:
            if not begins:
                yield from spaces(window)
                found = yield from ahead(window, *filter(None, (self.begin, self.section_end, trigger)))
                if found == trigger:
                    return  # another begins where this one's end is missing
                window.take(len(found))
                if found == self.section_end:
                    return
            yield from self._call(window, trigger, tools)
            if not self.section_end:
                return
            begins = False

    def _call(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:
        stops = (self.name_end,) if self.name_end else (self.tags.key_begin, self.tags.end)
        ends = Markers(stops, window.tokens)
        name, _ = yield from until(window, ends, _MAX_NAME, keep=None if self.name_end else stops)
        name = name.strip()
        if not name:
            raise Malformed
        yield Name(name)
        if self.takes_json:
            yield from spaces(window)
        if self.takes_json and window.text[0] == "{":
            yield from arguments(window)
            yield End()
            yield from spaces(window)
        else:
            yield from self._pairs(window, trigger, tools.get(name))
            yield End()
        yield from literal(window, self.tags.end)

    def _pairs(self, window: Window, trigger: str, tool: Tool | None) -> Reader:
        nexts = [mark for mark in (self.begin, self.section_end, trigger) if mark]  # a call whose own end is missing
        reader = TaggedObject(self.tags, {} if tool is None else tool.parameters, nexts=nexts)
        yield from converted(window, reader)
