"""A JSON document read while it is written: what begins, what has come of it, and what is complete.

Each character is read once, wherever the text was split. Knows no schema; what it accepts and what it makes of it is
what `json.loads` does, without NaN and Infinity, which are no JSON.

Sources: RFC 8259 (JSON), RFC 6901 (JSON Pointer).
"""

import re
from dataclasses import dataclass, field
from typing import Literal

MAX_DEPTH = 128
MAX_NUMBER_CHARS = 512
MAX_PATH_CHARS = 1024  # every reading carries its path

_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = frozenset({"true", "false", "null"})
_BLANK = " \t\n\r"
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Begun:
    """A string, an object or an array, empty as yet. `path` is a JSON Pointer; a name that comes twice begins anew."""

    path: str
    kind: Literal["string", "object", "array"]


@dataclass(frozen=True, slots=True)
class Fragment:
    """More of a string that has begun. Never half a surrogate pair."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """What had begun at `path` is whole. A container comes after what is in it."""

    path: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, true, false or null, whole at once and as it was written."""

    path: str
    literal: str


Reading = Begun | Fragment | Ended | Scalar


@dataclass(slots=True)
class _Open:
    """A container under way; `key` is where its next value belongs."""

    is_object: bool
    path: str
    key: str = ""
    count: int = 0
    keys: set[str] = field(default_factory=set)

    def child(self) -> str:
        name = self.key.replace("~", "~0").replace("/", "~1") if self.is_object else str(self.count)
        return f"{self.path}/{name}"


class PartialJson:
    """One document. `push` its text in pieces, then `finish`.

    is_complete       the document's value is whole
    is_broken         it can no longer become JSON, or is beyond a limit of this module; the rest is not read
    has_plain_names   no object has a name twice, or one that is written with an escape
    is_number         all that was read is one number
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.is_complete = False
        self.has_plain_names = True
        self.is_number = False
        self._open: list[_Open] = []
        self._state = "value"  # value, first (value or end), key, first_key, colon, next, string, word, end
        self._is_key = False
        self._at = ""  # the path of the string under way
        self._name: list[str] = []  # of the key under way
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
                self._add_to_word(c)
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
            self._ended(Ended(self._open.pop().path))
        else:
            self.is_broken = True

    def _begin(self, c: str) -> None:
        """The first character of a value."""
        if c == '"':
            self._state, self._is_key, self._at = "string", False, self._path()
            self._out.append(Begun(self._at, "string"))
        elif c in "{[":
            self._begin_container(is_object=c == "{")
        else:
            self._state, self._word = "word", ""
            self._add_to_word(c)

    def _begin_container(self, *, is_object: bool) -> None:
        path = self._path()
        self._open.append(_Open(is_object, path))
        self._state = "first_key" if is_object else "first"
        if len(self._open) > MAX_DEPTH:
            self.is_broken = True
        else:
            self._out.append(Begun(path, "object" if is_object else "array"))

    def _path(self) -> str:
        return self._open[-1].child() if self._open else ""

    def _ended(self, last: Ended | Scalar) -> None:
        self._out.append(last)
        self.is_complete = not self._open
        self._state = "next" if self._open else "end"

    def _add_to_word(self, c: str) -> None:
        self._word += c
        if self._word in _WORDS:
            self._ended(Scalar(self._path(), self._word))
        else:
            self.is_broken = len(self._word) > MAX_NUMBER_CHARS

    def _end_word(self) -> None:
        """What no character of its own ends."""
        if _NUMBER.fullmatch(self._word):
            self.is_number = not self._open
            self._ended(Scalar(self._path(), self._word))
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
        self.has_plain_names &= not self._is_key
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
        if self._is_key:
            self._name.append(text)
        else:
            self._out.append(Fragment(self._at, text))

    def _end_string(self) -> None:
        self._say("")
        if not self._is_key:
            self._ended(Ended(self._at))
            return
        name, self._name = "".join(self._name), []
        within = self._open[-1]
        self.has_plain_names &= name not in within.keys
        within.keys.add(name)
        within.key, self._state = name, "colon"
        self.is_broken = len(self._path()) > MAX_PATH_CHARS
