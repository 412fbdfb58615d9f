"""A body to a typed request: every fault is the client's, named by field, and found before anything is computed."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive

from dayzero.errors import RequestError
from dayzero.gateway.errors import BodyTooSlow, ClientGone, UnsupportedParameter

T = TypeVar("T", bound=msgspec.Struct)

_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_INTEGER_BITS = 64
_MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class FieldRules:
    """Which fields that are not in a request's struct mean something.

    neutral    known, with a meaning that we cannot honour, unless the value is one of these, which ask for nothing
    harmless   known, and without effect on what is generated: accepted in silence
    """

    neutral: Mapping[str, tuple[object, ...]]
    harmless: frozenset[str] = frozenset()


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
    """The typed request, and the names of the fields that have no effect. In strict mode there must be none."""
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for name, neutral in rules.neutral.items():
        if name in fields and fields[name] not in neutral:
            raise UnsupportedParameter(name)
    unknown = [name for name in fields if not (name in known or name in rules.neutral or name in rules.harmless)]
    names = [name if _PLAIN_NAME.fullmatch(name) else "?" for name in unknown[:_MAX_NAMES]]
    if strict and unknown:
        raise RequestError(f"unknown field: {', '.join(names)}", param=names[0], hint="leave it out")
    try:
        return msgspec.convert(fields, kind, str_keys=True), names
    except msgspec.ValidationError as error:
        message = str(error)
        place = _PLACE.search(message)
        param = place[1].split("[...]")[0].split(".")[0] if place and "[...]" in place[1] else place and place[1]
        what = _PLACE.sub("", message)
        raise RequestError(f"{what[:1].lower()}{what[1:]}", param=param or _missing_field(message)) from None


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
