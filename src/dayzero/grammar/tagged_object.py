"""Turns keys and values between tags into a JSON object while they come, typed by the tool's schema.

    <parameter=city>
    Köln
    </parameter>

A string's characters go through as they come; a value of any other type is held until its end and must be JSON there,
or else it is a string after all. A closing tag ends a value where arguments go on or end behind it: elsewhere a string
says it. One that says both, the tag and what may follow it, cannot be told from its end.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dayzero.errors import RequestError
from dayzero.grammar.json_object import JsonObject
from dayzero.grammar.subschema import followed

MAX_KEY = 512  # characters; longer ones are no keys
MAX_GAP = 64  # characters of white space behind a closing tag; beyond, it is one
MAX_SCHEMA_DEPTH = 8  # of alternatives within alternatives; deeper ones say nothing of a type

_SPACE = re.compile(r"\s*")
_WRAPPERS = frozenset({"arguments", "input"})
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """What stands around keys and values. White space between tags means nothing.

    value_begins   what stands between a key's end and its value, and whether it says that the value is a string:
                   `None` where the schema is to say so; "" where nothing stands there, or it may be missing
    end            what follows the last value
    has_own_lines  values stand on lines of their own: one line break at either end is not part of them
    """

    key_begin: str
    key_end: str
    value_begins: Mapping[str, bool | None]
    value_end: str
    end: str
    has_own_lines: bool = False


class Read(NamedTuple):
    """The JSON that was read, where in the text reading stopped, and whether that is a value's end."""

    json: str
    at: int
    is_value_end: bool = False


class TaggedObject:
    """Reads one object.

    A value that the model says is JSON, alone under a key such as "arguments" that the tool does not have, is the
    object itself, wrapped once more.

    nexts         what may follow the last value instead of its `end`, where that is missing
    is_complete   its end has come; the end itself is left unread
    is_broken     it is not what the tags say; nothing more is read
    """

    def __init__(self, tags: Tags, parameters: Mapping[str, object], *, nexts: Iterable[str] = ()) -> None:
        self._tags = tags
        self._parameters = parameters
        self._closing = _Closing(tags.value_end, (tags.key_begin, tags.end, *nexts))
        self._num_keys = 0
        self._value: _String | _Other | None = None
        self._wrapper: str | None = None  # the key, held back
        self._wrapped = ""  # its value
        self.is_complete = False
        self.is_broken = False

    def feed(self, text: str) -> tuple[str, int]:
        """The JSON that `text` gives, and how much of it was read: the rest is to come again, with more behind it."""
        pieces: list[str] = []
        at = 0
        while not (self.is_complete or self.is_broken):
            read = self._between(text, at) if self._value is None else self._value.read(text, at)
            if read is None:
                break
            if self._value is not None and self._wrapper is not None:
                self._wrapped += read.json
            else:
                pieces.append(read.json)
            at = read.at
            if read.is_value_end:
                self._value = None
        return "".join(pieces), at

    def _between(self, text: str, at: int) -> Read | None:
        """Read a key and what stands before its value, or find the end."""
        tags = self._tags
        at = _space_end(text, at)
        if text.startswith(tags.end, at):
            self.is_complete = True
            return Read(self._last(), at)
        if not text.startswith(tags.key_begin, at):
            return self._wait(text, at, [tags.key_begin, tags.end])
        begin = at + len(tags.key_begin)
        end = text.find(tags.key_end, begin, begin + MAX_KEY)
        if end < 0:
            return self._break(at) if len(text) >= begin + MAX_KEY else None
        key, unspaced = text[begin:end].strip(), end + len(tags.key_end)
        after = _space_end(text, unspaced)
        begins = [value_begin for value_begin in tags.value_begins if value_begin]
        for value_begin in begins:
            if text.startswith(value_begin, after):
                return Read(self._key(key, tags.value_begins[value_begin]), after + len(value_begin))
        if "" in tags.value_begins and not any(value_begin.startswith(text[after:]) for value_begin in begins):
            return Read(self._key(key, tags.value_begins[""]), unspaced)
        return self._wait(text, after, begins)

    def _key(self, key: str, is_string: bool | None) -> str:
        said = f'{"" if self._num_keys else "{"}{self._unwrapped()}{", " if self._num_keys else ""}"{_escaped(key)}": '
        is_wrapper = is_string is False and self._num_keys == 0 and key in _WRAPPERS and self._lacks(key)
        if is_string is None:
            is_string = is_string_schema(self._parameters, self._schema_of(key))
        self._value = _String(self._tags, self._closing) if is_string else _Other(self._tags, self._closing)
        self._num_keys += 1
        if is_wrapper:
            self._wrapper, said = said, ""
        return said

    def _unwrapped(self) -> str:
        """What was held back of a wrapper that was none, since another key came."""
        if self._wrapper is None:
            return ""
        said, self._wrapper = self._wrapper + self._wrapped, None
        return said

    def _last(self) -> str:
        if self._wrapper is not None and self._wrapped.startswith("{"):
            return self._wrapped
        return self._unwrapped() + ("}" if self._num_keys else "{}")

    @property
    def _described(self) -> Mapping[str, object]:
        """The schema, behind a reference."""
        if "$ref" not in self._parameters:
            return self._parameters
        try:
            return followed(self._parameters, self._parameters, set()) or {}
        except RequestError:
            return {}

    def _lacks(self, key: str) -> bool:
        """Whether the tool has parameters, and none of this name."""
        properties = self._described.get("properties")
        return isinstance(properties, Mapping) and bool(properties) and key not in properties

    def _schema_of(self, key: str) -> object:
        """The schema of a value; of one that the tool's schema does not know, that of a string."""
        properties = self._described.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
        others = self._described.get("additionalProperties")
        return others if isinstance(others, Mapping) and others else {"type": "string"}

    def _wait(self, text: str, at: int, expected: Iterable[str]) -> Read | None:
        return None if any(tag.startswith(text[at:]) for tag in expected) else self._break(at)

    def _break(self, at: int) -> Read:
        self.is_broken = True
        return Read("", at)


@dataclass(frozen=True, slots=True)
class _Closing:
    """The tag that closes a value, where one of `nexts` comes behind it."""

    tag: str
    nexts: tuple[str, ...]

    def is_at(self, text: str, at: int) -> bool | None:
        """Whether the tag that stands there closes; None where that is not known yet."""
        at += len(self.tag)
        after = _space_end(text, at)
        if text.startswith(self.nexts, after) or after - at > MAX_GAP:
            return True
        return None if any(one.startswith(text[after:]) for one in self.nexts) else False


class _String:
    def __init__(self, tags: Tags, closing: _Closing) -> None:
        self._tags = tags
        self._closing = closing
        self._has_begun = False

    def read(self, text: str, at: int) -> Read | None:
        quote = ""
        if not self._has_begun:
            if at == len(text):
                return None
            self._has_begun, quote = True, '"'
            at += self._tags.has_own_lines and text[at] == "\n"
        tag, search = self._closing.tag, at
        while (end := text.find(tag, search)) >= 0:
            closes = self._closing.is_at(text, end)
            if closes:
                value = text[at:end]
                value = value.removesuffix("\n") if self._tags.has_own_lines else value
                return Read(f'{quote}{_escaped(value)}"', end + len(tag), is_value_end=True)
            if closes is None:
                break
            search = end + len(tag)
        else:
            end = max(_unbegun_end(text, tag), search)
        if self._tags.has_own_lines and end > 0 and text[end - 1] == "\n":
            end -= 1
        end = max(end, at)
        return Read(quote + _escaped(text[at:end]), end) if quote or end > at else None


class _Other:
    """A value that is to be JSON. A closing tag within one of its strings may be what that says; outside of strings it
    is the end, whatever comes behind."""

    def __init__(self, tags: Tags, closing: _Closing) -> None:
        self._tags = tags
        self._closing = closing
        self._held: list[str] = []
        self._scan = JsonObject()
        self._scan.feed('{"":')  # the value stands within an object

    def read(self, text: str, at: int) -> Read | None:
        start, tag = at, self._closing.tag
        while (end := text.find(tag, at)) >= 0:
            self._hold(text[at:end])
            at = end
            closes = self._closing.is_at(text, end) if self._scan.is_in_string else True
            if closes:
                return Read(self._json("".join(self._held)), end + len(tag), is_value_end=True)
            if closes is None:
                break
            self._hold(tag)
            at += len(tag)
        else:
            end = max(_unbegun_end(text, tag), at)
            self._hold(text[at:end])
        return Read("", end) if end > start else None

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._scan.feed(text)

    def _json(self, value: str) -> str:
        """The value as the model wrote it where that is JSON, and a string of it where it is not."""
        word = value.strip()
        word = _PYTHON_WORDS.get(word, word)
        try:
            json.loads(word, parse_constant=_refuse)
        except (ValueError, RecursionError):
            value = value.removeprefix("\n").removesuffix("\n") if self._tags.has_own_lines else value
            return f'"{_escaped(value)}"'
        return word


def is_string_schema(root: Mapping[str, object], schema: object) -> bool:
    """Whether a value of this schema stands between its tags as it is, without quotes. References point into `root`."""
    return _type_of(root, schema, 0, set()) == "string"


def _type_of(root: Mapping[str, object], schema: object, depth: int, seen: set[str]) -> str | None:
    """The first type that the schema allows besides null, or `None` if it says none."""
    try:
        found = followed(root, schema, seen)
    except RequestError:
        return None
    if found is None or depth > MAX_SCHEMA_DEPTH:
        return None
    kinds = found.get("type")
    candidates = [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, Sequence) else []
    for alternatives in (found.get("anyOf"), found.get("oneOf"), found.get("allOf")):
        if not candidates and isinstance(alternatives, Sequence):
            candidates = [_type_of(root, alternative, depth + 1, seen) for alternative in alternatives]
    values = found.get("enum", [found["const"]] if "const" in found else [])
    if not candidates and isinstance(values, Sequence) and values and all(isinstance(value, str) for value in values):
        return "string"
    return next((kind for kind in candidates if isinstance(kind, str) and kind != "null"), None)


def _unbegun_end(text: str, tag: str) -> int:
    """How far `text` goes without the characters at its end that the tag may begin with."""
    lengths = range(min(len(tag) - 1, len(text)), 0, -1)
    return len(text) - next((length for length in lengths if text.endswith(tag[:length])), 0)


def _space_end(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _refuse(constant: str) -> None:
    raise ValueError(f"not JSON: {constant}")
