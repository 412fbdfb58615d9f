"""Finds where a JSON object ends in a text that comes in pieces, without reading what it means."""

import re

# Outside of strings: what opens and closes, and what no JSON has there, such as the marker that ends a call.
_MARKS = re.compile(r'["{}\[\]]|[^\s\w:,.+-]')
_IN_STRING = re.compile(r'["\\]')


class JsonObject:
    """Counts braces outside of strings. Bytes of the object pass through untouched; it may be invalid in other ways.

    is_complete    whether its last brace has come; never, of what does not begin with a brace
    is_broken      it is no JSON from here on, and nothing more of it is read
    is_in_string   whether the next character belongs to a string
    """

    def __init__(self) -> None:
        self._is_object: bool | None = None  # not known before the first character that is no white space
        self._depth = 0
        self._is_escaped = False
        self.is_in_string = False
        self.is_complete = False
        self.is_broken = False

    def feed(self, text: str, start: int = 0) -> int:
        """Where the object's part of `text` ends, from `start` on: after its last brace, before what breaks it, or at
        the end of the text."""
        if self._is_object is None and (first := text[start:].lstrip()[:1]):
            self._is_object = first == "{"
        if not self._is_object:
            return len(text)
        at = start
        while at < len(text) and not (self.is_complete or self.is_broken):
            if self._is_escaped:
                self._is_escaped = False
                at += 1
                continue
            mark = (_IN_STRING if self.is_in_string else _MARKS).search(text, at)
            if mark is None:
                return len(text)
            self._see(mark[0])
            at = mark.start() if self.is_broken else mark.end()
        return at

    def _see(self, mark: str) -> None:
        if mark == "\\":
            self._is_escaped = True
        elif mark == '"':
            self.is_in_string = not self.is_in_string
        elif mark in "{[":
            self._depth += 1
        elif mark not in "}]":
            self.is_broken = True
        else:
            self._depth -= 1
            self.is_complete = self._depth <= 0
