"""What of a JSON Schema constrains nothing, so that nobody need enforce it. Pure.

Generators of schemas write `uniqueItems: false` and the like, which no compiler of grammars should be asked to know.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
_ONE = frozenset(
    (
        *("items", "additionalItems", "unevaluatedItems", "contains", "propertyNames", "additionalProperties"),
        *("unevaluatedProperties", "not", "if", "then", "else"),
    )
)
_LISTED = frozenset(("items", "prefixItems", "anyOf", "oneOf", "allOf"))
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
_REST = {
    "patternProperties": ("additionalProperties", "unevaluatedProperties"),
    "prefixItems": ("items", "unevaluatedItems"),
}
_OLD_DRAFT = re.compile(r"https?://json-schema\.org/draft-0[1-7]/")
_BESIDE_REF = _ANNOTATIONS | {"$ref", "$schema", "$id", "$defs", "definitions"}
_ANCHORS = ("$dynamicAnchor", "$recursiveAnchor")  # what would refer to them, is refused


def without_void(schema: Schema) -> dict[str, Any]:
    """The same schema without keywords that any value fits; `additionalProperties: true` stays, as calls heed it.

    Where its `$schema` is draft 7 or older, all that constrains beside a `$ref` goes too: in those it means nothing.
    What a reference leads to there is then missing, and the schema refused.

    Sources: the vocabularies for applicators and validation of JSON Schema 2020-12, and draft 7 (8.3 of its core) for
    what is older.
    """
    draft = str(schema.get("$schema"))
    if not _OLD_DRAFT.match(draft):
        return _without_void(schema, is_old=False)
    named = {**schema, "$schema": draft.replace("https:", "http:", 1)}  # as those drafts, and llguidance, spell it
    return _without_void(named, is_old=True)


def _without_void(schema: Schema, *, is_old: bool) -> dict[str, Any]:
    if is_old and isinstance(schema.get("$ref"), str):
        schema = {keyword: value for keyword, value in schema.items() if keyword in _BESIDE_REF}
    inner = {keyword: _within(keyword, value, is_old=is_old) for keyword, value in schema.items()}
    return {keyword: value for keyword, value in inner.items() if not _is_void(keyword, value, inner)}


def _within(keyword: str, value: Any, *, is_old: bool) -> Any:
    """A property may have the name of a keyword: what is a schema depends on where it stands."""
    if keyword in _NAMED and isinstance(value, Mapping):
        return {name: _cleaned(one, is_old=is_old) for name, one in value.items()}
    if keyword in _LISTED and isinstance(value, list):
        return [_cleaned(one, is_old=is_old) for one in value]
    return _cleaned(value, is_old=is_old) if keyword in _ONE else value


def _cleaned(schema: Any, *, is_old: bool) -> Any:
    return _without_void(schema, is_old=is_old) if isinstance(schema, Mapping) else schema


def _is_void(keyword: str, value: Any, schema: Schema) -> bool:
    match keyword:
        case "uniqueItems" | "not":
            return value is False
        case "minItems" | "minLength" | "minProperties":
            return type(value) is int and value == 0
        case "unevaluatedItems" | "unevaluatedProperties":
            return _fits_all(value)
        case "propertyNames":
            return _fits_all(value) or value == {"type": "string"}
        case "additionalItems":
            return _fits_all(value) or not isinstance(schema.get("items"), list)
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return isinstance(value, Mapping) and all(one == [] or _fits_all(one) for one in value.values())
        case "patternProperties" | "prefixItems":
            return _takes_nothing(value, schema, _REST[keyword])
        case "allOf":
            return isinstance(value, list) and all(map(_fits_all, value))
        case "anyOf":
            return isinstance(value, list) and any(map(_fits_all, value))
        case _:
            return keyword in _ANCHORS or _lacks_its_partner(keyword, schema)


def _takes_nothing(value: Any, schema: Schema, rest: Sequence[str]) -> bool:
    """Of a keyword whose items or properties are none of the rest, which others constrain."""
    inner = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(inner, list) or not all(map(_fits_all, inner)):
        return False
    return not inner or all(_fits_all(schema.get(other, True)) for other in rest)


def _lacks_its_partner(keyword: str, schema: Schema) -> bool:
    """Keywords that count only beside another."""
    match keyword:
        case "contains":
            return schema.get("minContains") == 0 and "maxContains" not in schema
        case "minContains" | "maxContains":
            return "contains" not in schema or _lacks_its_partner("contains", schema)
        case "if":
            return _fits_all(schema.get("then", True)) and _fits_all(schema.get("else", True))
        case "then" | "else":
            return "if" not in schema or _lacks_its_partner("if", schema)
    return False


def _fits_all(schema: Any) -> bool:
    return schema is True or (isinstance(schema, Mapping) and schema.keys() <= _ANNOTATIONS)
