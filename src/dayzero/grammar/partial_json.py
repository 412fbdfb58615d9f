"""A JSON document read while it is written: which values are complete, and what has come of the string under way.

Each character is read once, wherever the text was split. Knows no schema; what it accepts and what it makes of it is
what `json.loads` does, without NaN and Infinity, which are no JSON.

Sources: RFC 8259 (JSON), RFC 6901 (JSON Pointer).
"""

import json
import re
from dataclasses import dataclass

MAX_DEPTH = 128
MAX_NUMBER_CHARS = 512
MAX_PATH_CHARS = 4096  # every fragment carries its path

_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = {"true": True, "false": False, "null": None}
_BLANK = " \t\n\r"
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Fragment:
    """More of the string at `path`, a JSON Pointer. Never half a surrogate pair."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Complete:
    """The value at `path` is whole. A container comes after what is in it, and does not repeat it: `value` is None."""

    path: str
    kind: str  # "string", "number", "boolean", "null", "object", "array"
    value: str | int | float | bool | None = None


Reading = Fragment | Complete


@dataclass(slots=True)
class _Open:
    """A container under way; `key` is where its next value belongs."""

    is_object: bool
    path: str
    key: str = ""
    count: int = 0

    def child(self) -> str:
        name = self.key.replace("~", "~0").replace("/", "~1") if self.is_object else str(self.count)
        return f"{self.path}/{name}"


class PartialJson:
    """One document. `push` its text in pieces, then `finish`.

    is_complete   the document's value is whole
    is_broken     it can no longer become JSON, or is beyond a limit of this module; the rest is not read
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.is_complete = False
        self._open: list[_Open] = []
        self._state = "value"  # value, first (value or end), key, first_key, colon, next, string, word, end
        self._is_key = False
        self._at = ""  # the path of the string under way
        self._said: list[str] = []  # of the string under way
        self._escape = ""  # of an escape under way, from its backslash
        self._high = ""  # a high surrogate that waits for its other half
        self._word = ""  # of a number or a literal under way
        self._out: list[Reading] = []

    def push(self, text: str) -> list[Reading]:
        """What this text completes, in the document's order."""
        at = 0
        while at < len(text) and not self.is_broken:
            at = self._string(text, at) if self._state == "string" else self._one(text[at], at)
        return self._take()

    def finish(self) -> list[Reading]:
        """The same, the text being over: a number at the top ends with it."""
        if self._state == "word" and not self.is_broken:
            self._end_word()
        if not self.is_complete:
            self.is_broken = True
        return self._take()

    def _take(self) -> list[Reading]:
        out, self._out = self._out, []
        return out

    def _one(self, c: str, at: int) -> int:
        """One character outside a string. Returns where to go on: at the same one, if it only ended a word."""
        if self._state == "word":
            if c not in ',]}" \t\n\r:[{':
                self._word += c
                self.is_broken = len(self._word) > MAX_NUMBER_CHARS
                return at + 1
            self._end_word()
            return at
        if c not in _BLANK:
            self._structure(c)
        return at + 1

    def _structure(self, c: str) -> None:
        state = self._state
        if state in ("value", "first") and c not in "]}:,":
            self._begin(c)
        elif state in ("key", "first_key") and c == '"':
            self._state, self._is_key = "string", True
        elif state == "colon" and c == ":":
            self._state = "value"
        elif state == "next" and c == ",":
            self._open[-1].count += 1
            self._state = "key" if self._open[-1].is_object else "value"
        elif (state in ("next", "first_key") and c == "}" and self._open[-1].is_object) or (
            state in ("next", "first") and c == "]" and not self._open[-1].is_object
        ):
            closed = self._open.pop()
            self._ended(Complete(closed.path, "object" if closed.is_object else "array"))
        else:
            self.is_broken = True

    def _begin(self, c: str) -> None:
        """The first character of a value."""
        if c == '"':
            self._state, self._is_key, self._at = "string", False, self._path()
        elif c in "{[":
            self._open.append(_Open(c == "{", self._path()))
            self._state = "first_key" if c == "{" else "first"
            self.is_broken = len(self._open) > MAX_DEPTH
        else:
            self._state, self._word = "word", c

    def _path(self) -> str:
        return self._open[-1].child() if self._open else ""

    def _ended(self, value: Complete) -> None:
        self._out.append(value)
        self.is_complete = not self._open
        self._state = "next" if self._open else "end"

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if word in _WORDS:
            value = _WORDS[word]
            self._ended(Complete(self._path(), "null" if value is None else "boolean", value))
        elif _NUMBER.fullmatch(word):
            self._ended(Complete(self._path(), "number", json.loads(word)))
        else:
            self.is_broken = True

    def _string(self, text: str, at: int) -> int:
        """As much as one step of a string: an escape's next character, a run of plain text, or its end."""
        if self._escape:
            self._escaped(text[at])
            return at + 1
        run = _STRING_RUN.match(text, at)
        if run is not None:
            self._say(run[0])
            return run.end()
        if text[at] == "\\":
            self._escape = "\\"
        elif text[at] == '"':
            self._end_string()
        else:
            self.is_broken = True  # a control character
        return at + 1

    def _escaped(self, c: str) -> None:
        self._escape += c
        if len(self._escape) == 2 and c != "u":
            self.is_broken = c not in _ESCAPES
            self._escape = ""
            self._say(_ESCAPES.get(c, ""))
        elif len(self._escape) > 2 and c not in _HEX:
            self.is_broken = True
        elif len(self._escape) == 6:
            unit = chr(int(self._escape[2:], 16))
            self._escape = ""
            self._say_unit(unit)

    def _say_unit(self, unit: str) -> None:
        """A \\u escape: two of them may be one character."""
        if self._high and "\udc00" <= unit <= "\udfff":
            pair, self._high = self._high + unit, ""
            self._say(pair.encode("utf-16", "surrogatepass").decode("utf-16"))
        elif "\ud800" <= unit <= "\udbff":
            self._say("")
            self._high = unit
        else:
            self._say(unit)

    def _say(self, text: str) -> None:
        if self._high:
            text, self._high = self._high + text, ""
        if not text:
            return
        self._said.append(text)
        if not self._is_key:
            self._out.append(Fragment(self._at, text))

    def _end_string(self) -> None:
        self._say("")
        text, self._said = "".join(self._said), []
        if self._is_key:
            self._open[-1].key, self._state = text, "colon"
            self.is_broken = len(self._path()) > MAX_PATH_CHARS
        else:
            self._ended(Complete(self._at, "string", text))
