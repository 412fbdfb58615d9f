"""Instances of a schema as text, with their keys in the order of its properties."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema

Json = Any


def canonical(value: Json) -> str:
    """JSON as models write it: blanks after commas and colons, characters as themselves."""
    return json.dumps(value, ensure_ascii=False)


def compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def escaped(value: Json) -> str:
    """The same value with every character beyond ASCII as an escape."""
    return json.dumps(value)


def ordered(value: Json, schema: Json, root: Json) -> Json:
    """The instance with its keys in the order in which the schema declares them; the others come last, as they were."""
    if not isinstance(value, dict | list):
        return value
    applied = list(_applied(value, schema, root))
    if isinstance(value, list):
        return [ordered(inner, _item_schema(applied, index), root) for index, inner in enumerate(value)]
    declared: dict[str, list[Json]] = {}
    for part in applied:
        for name, inner in part.get("properties", {}).items():
            declared.setdefault(name, []).append(inner)
    names = [name for name in declared if name in value] + [name for name in value if name not in declared]
    return {
        name: ordered(value[name], {"allOf": declared.get(name) or _undeclared(applied, name)}, root) for name in names
    }


def _undeclared(applied: Sequence[Mapping[str, Json]], name: str) -> list[Json]:
    """The schemas of a key that no `properties` declares."""
    patterns = [(pattern, inner) for part in applied for pattern, inner in part.get("patternProperties", {}).items()]
    matching = [inner for pattern, inner in patterns if re.search(pattern, name)]
    return matching or [part["additionalProperties"] for part in applied if "additionalProperties" in part]


def _applied(value: Json, schema: Json, root: Json, depth: int = 32) -> Iterator[Mapping[str, Json]]:
    """The schema and those inside it that speak of the same value."""
    if not isinstance(schema, dict) or depth == 0:
        return
    if isinstance(reference := schema.get("$ref"), str) and _is_old(root):  # nothing beside it means anything
        schema = {"$ref": reference}
    yield schema
    if isinstance(reference, str):
        yield from _applied(value, _target(reference, root), root, depth - 1)
    for inner in schema.get("allOf", ()):
        yield from _applied(value, inner, root, depth - 1)
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword, ())
        fitting = (b for b in branches if _is_valid(value, b, root))
        yield from _applied(value, next(fitting, None), root, depth - 1)


def _is_old(root: Json) -> bool:
    """Draft 7 or older."""
    return isinstance(root, dict) and "json-schema.org/draft-0" in str(root.get("$schema"))


def _target(reference: str, root: Json) -> Json:
    if not reference.startswith("#"):
        return None
    found = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if name:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _item_schema(applied: Sequence[Mapping[str, Json]], index: int) -> Json:
    for part in applied:
        if isinstance(prefix := part.get("prefixItems"), list) and index < len(prefix):
            return prefix[index]
        items = part.get("items")
        if isinstance(items, list):
            return items[index] if index < len(items) else part.get("additionalItems")
        if items is not None:
            return items
    return None


def _is_valid(value: Json, schema: Json, root: Json) -> bool:
    """Whether an instance meets a part of a schema whose references are those of the whole."""
    definitions = {k: v for k, v in root.items() if k in ("$defs", "definitions")} if isinstance(root, dict) else {}
    whole = {**definitions, "allOf": [schema]} if isinstance(schema, dict) else schema
    try:
        return bool(jsonschema.Draft202012Validator(whole).is_valid(value))
    except Exception:  # noqa: BLE001 - a reference that cannot be followed: then the branch is not chosen
        return False
