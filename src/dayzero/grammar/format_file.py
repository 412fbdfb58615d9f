"""A format that a user wrote: one record as a TOML file, with the keys of `Format` and of its shape.

It is data: nothing in it is run, and every string and list has a bound. docs/tool-formats.md shows all keys.
"""

import dataclasses
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dayzero.errors import ConfigError
from dayzero.grammar.format import Format
from dayzero.grammar.shapes.enveloped import BareEnvelopes, Enveloped, EnvelopedList
from dayzero.grammar.shapes.gemma import Noted
from dayzero.grammar.shapes.named import Named
from dayzero.grammar.shapes.pythonic import Pythonic
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tagged_object import Tags

MAX_BYTES = 65536
MAX_CHARS = 256  # of a string
MAX_ENTRIES = 64  # of a list or a table

SHAPES: Mapping[str, type] = {
    "enveloped": Enveloped,
    "enveloped-list": EnvelopedList,
    "bare-envelopes": BareEnvelopes,
    "named": Named,
    "tagged": Tagged,
    "pythonic": Pythonic,
    "noted": Noted,
}
VALUES: Mapping[str, bool | None] = {"string": True, "json": False, "schema": None}

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_HEAD = re.compile(r"[^{}]*\{name\}[^{}]*(?:\{index\}[^{}]*)?")
_MAY_BE_EMPTY = frozenset({"begin", "name_end"})  # of the keys that must be there
_NOT_HERE = frozenset({"templates"})  # says which built-in format a chat template speaks; a file is named by its path

Table = Mapping[str, Any]


class _Wrong(Exception):
    """A key, and what is wrong with it."""

    def __init__(self, key: str, what: str, hint: str) -> None:
        super().__init__(f"{key}: {what}" if key else what)
        self.hint = hint


def read_format(path: Path) -> Format:
    """Raises ConfigError, naming the file, the key and what to do, for anything that is no such record."""
    try:
        return _format(_table(path))
    except _Wrong as wrong:
        raise ConfigError(f"{path}: {wrong}", hint=wrong.hint) from None


def _table(path: Path) -> Table:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _Wrong("", error.strerror or "cannot be read", "name a TOML file, or a format by its name") from None
    if len(data) > MAX_BYTES:
        raise _Wrong("", f"too large (limit: {MAX_BYTES} bytes)", "a format needs a few lines only")
    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _Wrong("", f"not TOML: {error}", "see https://toml.io") from None
    _bound(table, "")
    return table


def _bound(value: object, where: str, depth: int = 0) -> None:
    """Nothing is larger than any format needs."""
    if isinstance(value, str) and len(value) > MAX_CHARS:
        raise _Wrong(where, f"too long (limit: {MAX_CHARS} characters)", "shorten it")
    if isinstance(value, list | dict):
        if len(value) > MAX_ENTRIES or depth > 4:
            raise _Wrong(where, f"too large (limit: {MAX_ENTRIES} entries)", "remove some")
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            _bound(str(key), where or "a key", depth + 1)
            _bound(entry, _under(where, str(key)), depth + 1)


def _format(table: Table) -> Format:
    found: Format = _record(Format, table, "", {"shape": _shape(_section(table, "shape", ""))})
    if not _NAME.fullmatch(found.name):
        raise _Wrong("name", "not a plain word", "use 1 to 64 of a-z 0-9 . _ -")
    if not (found.triggers or found.bare):
        raise _Wrong("triggers", "nothing begins a call", "list what does, or give the characters of bare")
    for key in ("triggers", "also_read", "reasoning", "forbidden", "tokens"):
        if any(not one for one in getattr(found, key) or ()):
            raise _Wrong(key, "an empty string", "remove it")
    if any(character.isspace() for character in found.bare):
        raise _Wrong("bare", "holds white space", "white space before a call is skipped anyway")
    if found.reasoning is not None and found.reasoning[0] == found.reasoning[1]:
        raise _Wrong("reasoning", "begins as it ends", "give two strings that differ")
    if isinstance(found.shape, Tagged):
        marks = (found.shape.begin, found.shape.section_end, *found.triggers)
        _apart("shape", ("begin, section_end, triggers", [mark for mark in marks if mark]))
    return found


def _shape(table: Table) -> Any:
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in SHAPES:
        raise _Wrong("shape.kind", "missing or unknown", f"use one of {', '.join(SHAPES)}")
    made = {"tags": _tags(_section(table, "tags", "shape"))} if kind == "tagged" else {}
    shape = _record(SHAPES[kind], {key: value for key, value in table.items() if key != "kind"}, "shape", made)
    if isinstance(shape, Named):
        _check_named(shape)
    if isinstance(shape, Tagged) and shape.takes_json and not shape.name_end:
        raise _Wrong("shape.name_end", "missing", "an object needs something that ends the name before it")
    if isinstance(shape, Tagged) and shape.section_end:
        _check_begin(shape)
    return shape


def _check_named(shape: Named) -> None:
    if not _HEAD.fullmatch(shape.head):
        raise _Wrong("shape.head", "not a pattern of a name", "write {name} once, and perhaps {index} behind it")
    for key in ("separators", "fences", "section_ends"):
        if any(not one for one in getattr(shape, key) or ()):
            raise _Wrong(f"shape.{key}", "an empty string", "remove it")
    if shape.section_ends:
        _check_begin(shape)
        _apart("shape", ("begin, section_ends", [shape.begin, *shape.section_ends]))


def _check_begin(shape: Named | Tagged) -> None:
    """Where what ends a section may come instead of another call."""
    if not shape.begin:
        raise _Wrong("shape.begin", "missing", "calls of a section need something that begins each")


def _tags(table: Table) -> Tags:
    begins = _section(table, "value_begins", "shape.tags")
    for begin, says in begins.items():
        if not isinstance(says, str) or says not in VALUES:
            raise _Wrong(f'shape.tags.value_begins."{begin}"', "unknown", f"use one of {', '.join(VALUES)}")
    if "schema" not in begins.values() and not {"string", "json"} <= set(begins.values()):
        raise _Wrong("shape.tags.value_begins", "not for every value", 'give "schema", or both "string" and "json"')
    made = {"value_begins": {begin: VALUES[says] for begin, says in begins.items()}}
    tags: Tags = _record(Tags, table, "shape.tags", made)
    _apart("shape.tags", ("key_begin, end", [tags.key_begin, tags.end]))
    _apart("shape.tags", ("value_begins", [begin for begin in tags.value_begins if begin]))
    return tags


def _apart(where: str, named: tuple[str, Sequence[str]]) -> None:
    """Of strings of which one comes next, none may be another's beginning."""
    names, strings = named
    unlike = list(dict.fromkeys(strings))
    if any(a != b and b.startswith(a) for a in unlike for b in unlike):
        raise _Wrong(where, f"one of {names} begins as another does", "make them differ, or leave one out")


def _section(table: Table, key: str, where: str) -> Table:
    found = table.get(key)
    if not isinstance(found, dict):
        raise _Wrong(_under(where, key), "missing or no table", f"add [{_under(where, key)}]")
    return found


def _record(kind: type, table: Table, where: str, made: Mapping[str, object]) -> Any:
    """A dataclass of a table's values, each of the type of its field, but for those that are made already."""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.name not in _NOT_HERE}
    hints = typing.get_type_hints(kind)
    values = dict(made)
    for key, value in table.items():
        if key not in fields:
            raise _Wrong(_under(where, key), "no such key", f"known here: {', '.join(fields)}")
        if key not in made:
            values[key] = _value(value, hints[key], _under(where, key))
    for key, field in fields.items():
        is_required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if is_required and key not in values:
            raise _Wrong(_under(where, key), "missing", "add it; docs/tool-formats.md says what it means")
        if is_required and values[key] == "" and key not in _MAY_BE_EMPTY:
            raise _Wrong(_under(where, key), "empty", "give a string")
    return kind(**values)


def _value(value: object, kind: Any, where: str) -> object:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _Wrong(where, str(error).partition(" - at ")[0], "give a value of that type") from None


def _under(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
