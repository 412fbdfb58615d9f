"""A body to a typed request: every fault is the client's, named by field, and found before anything is computed."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from starlette.types import Receive

from dayzero.errors import RequestError
from dayzero.gateway.errors import BodyTooSlow, ClientGone, UnsupportedParameter

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")

_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile(r"\[\d+\]")
MAX_INTEGER_BITS = 64
_MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class FieldRules:
    """What fields mean that are not in a request's struct, and what is within those that are.

    A field within another is named by its path: `stream_options.include_obfuscation`, `tools[].cache_control`.

    neutral    known, with a meaning that we cannot honour, unless the value is one of these, which ask for nothing
    instead    what to do instead of sending one of them
    harmless   known, and without effect on what is generated: ignored even in strict mode
    shapes     of fields that are plain JSON in the struct: their types, and what may be within them
    inside     of such fields too, whose types the reader checks itself: only what may be within them
    open       objects that any field may stand in, by their path: `messages[]`

    Structs with tags stand for objects told apart by their `type`; without one it is the first's.
    """

    neutral: Mapping[str, tuple[object, ...]]
    harmless: frozenset[str] = frozenset()
    instead: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, Any] = field(default_factory=dict)
    inside: Mapping[str, Any] = field(default_factory=dict)
    open: frozenset[str] = frozenset()

    def __or__(self, other: "FieldRules") -> "FieldRules":
        """Those of both."""
        return FieldRules(
            neutral={**self.neutral, **other.neutral},
            harmless=self.harmless | other.harmless,
            instead={**self.instead, **other.instead},
            shapes={**self.shapes, **other.shapes},
            inside={**self.inside, **other.inside},
            open=self.open | other.open,
        )


async def read_body(receive: Receive, *, within_s: float) -> bytes:
    """The whole body. BodyTooSlow after `within_s`, ClientGone if it never ends."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(within_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise BodyTooSlow(f"the body did not arrive within {within_s:g} s") from None


def parse_object(body: bytes, *, max_depth: int, max_containers: int) -> dict[str, Any]:
    """A JSON object without the fields that are null: for an optional field, null and absent are the same."""
    if _num_containers(body, max_containers) > max_containers:
        raise RequestError(f"too many JSON arrays and objects (limit: {max_containers})")
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise RequestError(f"JSON nested too deeply (limit: {max_depth})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON: {error}", hint="send UTF-8 encoded JSON") from None
    if not isinstance(value, dict):
        raise RequestError(f"the body is not a JSON object: {_kind(value)}")
    _check_values(value, max_depth)
    return {name: inner for name, inner in value.items() if inner is not None}


def to_struct(fields: dict[str, Any], kind: type[T], rules: FieldRules, *, strict: bool) -> tuple[T, list[str]]:
    """The typed request, and the names of the fields that have no effect. In strict mode all of them must be known."""
    ignored = without_effect(fields, {**_types_of(kind), **rules.shapes, **rules.inside}, rules, strict=strict)
    request = _converted(fields, kind)
    for name, shape in rules.shapes.items():
        if name in fields:
            _converted(fields[name], shape, within=name)
    return request, ignored


def without_effect(
    fields: Mapping[str, Any], known: Mapping[str, Any], rules: FieldRules, *, strict: bool
) -> list[str]:
    """The names of the fields that are not `known`, by its types; "..." comes last if there are too many.

    One that stands in several elements of a list is named once, where it first does.
    """
    ignored: list[str] = []
    told: set[str] = set()
    for place, path, value in _beside(fields, known, ""):
        name = _NUMBER.sub("[]", path)
        if name in rules.neutral:
            if value not in rules.neutral[name]:
                raise UnsupportedParameter(path, hint=rules.instead.get(name))
            continue
        if _NUMBER.sub("[]", place) in rules.open:
            continue
        if strict and name not in rules.harmless:
            raise RequestError(f"unknown field: {path}", param=path, hint="leave it out")
        if len(ignored) <= _MAX_NAMES and (name == path or name not in told):
            told.add(name)
            ignored.append(path)
    return [*ignored[:_MAX_NAMES], "..."] if len(ignored) > _MAX_NAMES else ignored


def _beside(value: Mapping[str, Any], known: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, object]]:
    """Place, path and value of each field that its object has no place for. null is the same as absent."""
    for name, inner in value.items():
        if inner is None:
            continue
        path = f"{place}.{_plain(name)}" if place else _plain(name)
        if name not in known:
            yield place, path, inner
        elif isinstance(inner, dict | list):
            yield from _beside_in(inner, known[name], path)


def _beside_in(value: object, kind: Any, place: str) -> Iterator[tuple[str, str, object]]:
    if isinstance(value, dict):
        struct = _struct_of(value, kind)
        if struct is not None:
            yield from _beside(value, _types_of(struct), place)
    elif isinstance(value, list):
        for one in _kinds(kind):
            if get_origin(one) is list and _has_struct(one):
                (item,) = get_args(one)
                for number, inner in enumerate(value):
                    yield from _beside_in(inner, item, f"{place}[{number}]")


def _struct_of(value: Mapping[str, Any], kind: Any) -> type[msgspec.Struct] | None:
    """What an object is read into. None: nothing, or its `type` is one that its reader refuses."""
    by_tag = _by_tag(kind)
    if None in by_tag:
        return by_tag[None]
    tag = value.get("type") or next(iter(by_tag), None)
    return by_tag.get(tag) if isinstance(tag, str) else None


@cache
def _by_tag(kind: Any) -> Mapping[str | int | None, type[msgspec.Struct]]:
    """The structs of a type by their tags; one without tags by None."""
    return {one.__struct_config__.tag: one for one in _kinds(kind) if _is_struct(one)}


def _kinds(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


@cache
def _types_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """Of a struct's fields, by their names in JSON; a tag is one of them."""
    tag = kind.__struct_config__.tag_field
    return {
        **({} if tag is None else {tag: str}),
        **{one.encode_name: one.type for one in msgspec.structs.fields(kind)},
    }


@cache
def _has_struct(kind: Any) -> bool:
    return _is_struct(kind) or any(_has_struct(one) for one in get_args(kind))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _plain(name: str) -> str:
    """A name that may stand in a header and a log."""
    return name if _PLAIN_NAME.fullmatch(name) else "?"


def _converted(value: object, kind: type[R], *, within: str = "") -> R:
    """Raises RequestError, naming the field."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        message = str(error)
        place = _PLACE.search(message)
        param = place[1].split("[...]")[0].split(".")[0] if place and "[...]" in place[1] else place and place[1]
        param = param or _missing_field(message)
        what = _PLACE.sub("", message)
        raise RequestError(f"{what[:1].lower()}{what[1:]}", param=_joined(within, param)) from None


def _joined(within: str, param: str | None) -> str | None:
    if not within or not param:
        return within or param
    return f"{within}{param}" if param.startswith("[") else f"{within}.{param}"


def _num_containers(body: bytes, limit: int) -> int:
    """How many arrays and objects a body has, counted before any is made; roughly if there are no more than `limit`."""
    count = body.count(b"[") + body.count(b"{")
    if count > limit:  # some may be text
        bare = _STRING.sub(b"", body)
        count = bare.count(b"[") + bare.count(b"{")
    return count


def _missing_field(message: str) -> str | None:
    """The name in msgspec's "missing required field" message."""
    found = re.search(r"missing required field `([^`]*)`", message)
    return found[1] if found else None


def _check_values(value: object, max_depth: int) -> None:
    """Refuse deep nesting and integers that no field could hold. Level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(max_depth):
        deeper: list[object] = []
        for container in level:
            for inner in container.values() if isinstance(container, dict) else container:  # type: ignore[attr-defined]
                if isinstance(inner, dict | list):
                    deeper.append(inner)
                elif type(inner) is int and inner.bit_length() > MAX_INTEGER_BITS:
                    raise RequestError("integer out of range", hint="integers have at most 64 bits")
        if not deeper:
            return
        level = deeper
    raise RequestError(f"JSON nested too deeply (limit: {max_depth})")


def _kind(value: object) -> str:
    """The JSON name of a value's type."""
    return {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}.get(type(value), "null")
