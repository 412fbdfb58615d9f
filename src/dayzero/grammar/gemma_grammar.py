"""The grammar of a call's arguments in gemma 4's notation, of the tool's schema.

Arguments are written as the chat template writes those of earlier calls: keys sorted, no white space. `format` is not
bound.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence

from dayzero.grammar.gemma_object import STRING_MARK
from dayzero.grammar.lark import Lark
from dayzero.grammar.subschema import (
    UNBOUND,
    WIDER,
    NothingFits,
    Schema,
    cannot_bind,
    length_of,
    listed,
    named_in,
    pattern_of,
    referred,
    values_of,
)

_BARE_KEY = re.compile(r"[\w.$-]+")
_ANY_KEY = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"  # that a schema does not name
_ANNOTATIONS = frozenset({"title", "description", "default", "examples"})
_KINDS = ("string", "number", "boolean", "null", "array", "object")
_KEYWORDS_OF_KIND = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
_BESIDE_NO_REFERENCE = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "allOf"}.union(*_KEYWORDS_OF_KIND.values())
)


class GemmaGrammar:
    """Writes one tool's arguments. Raises RequestError, naming the keyword, for a schema that it cannot bind.

    schema   of the arguments; references point into it
    """

    def __init__(self, lark: Lark, schema: Schema) -> None:
        self._lark = lark
        self._root = schema
        self._rules: dict[str, str] = {}  # of what was referred to, by its pointer

    def arguments(self) -> str:
        return self._value({**self._root, "type": "object"} if "$ref" not in self._root else self._root)

    def _value(self, schema: object) -> str:
        """A body for any value that fits the schema."""
        if not isinstance(schema, Mapping):
            if schema is False:
                raise NothingFits
            return self._anything()
        self._check(schema)
        if "$ref" in schema:
            return self._referred(schema["$ref"])
        if "const" in schema or "enum" in schema:
            return self._words(schema)
        alternatives = self._alternatives(schema)
        if alternatives is not None:
            return self._lark.any_of([self._value(alternative) for alternative in alternatives])
        kinds = _kinds_of(schema)
        if kinds == _KINDS:
            return self._anything()
        return self._lark.any_of([self._of_kind(kind, schema) for kind in kinds])

    def _check(self, schema: Schema) -> None:
        unbound = sorted(UNBOUND & schema.keys())
        unbound += ["uniqueItems"] if schema.get("uniqueItems") is True else []
        unbound += ["$ref beside others"] if "$ref" in schema and _BESIDE_NO_REFERENCE & schema.keys() else []
        if unbound:
            raise cannot_bind(unbound[0])

    def _alternatives(self, schema: Schema) -> list[object] | None:
        """What the schema comes to with each of its alternatives in turn; None if it has none."""
        for keyword in ("anyOf", "oneOf", "allOf"):
            given = schema.get(keyword)
            if not isinstance(given, Sequence):
                continue
            rest = {key: value for key, value in schema.items() if key != keyword}
            merged = [_merged(rest, one) if isinstance(one, Mapping) else one for one in given]
            kinds = [_kinds_of(one) for one in merged]
            overlaps = sum(map(len, kinds)) > len({kind for each in kinds for kind in each})
            if (keyword == "allOf" and len(given) > 1) or (keyword == "oneOf" and overlaps):
                raise cannot_bind(keyword)
            return merged
        return None

    def _of_kind(self, kind: str, schema: Schema) -> str:
        match kind:
            case "string":
                text = self._lark.text_until(STRING_MARK, length=length_of(schema), pattern=pattern_of(schema))
                return f"{self._lark.literal(STRING_MARK)} {text}"
            case "array":
                return self._array(schema)
            case "object":
                return self._object(schema)
            case "number":
                bounds = {key: schema[key] for key in _KEYWORDS_OF_KIND["number"] & schema.keys()}
                return self._lark.schema({"type": _narrowed(schema.get("type")), **bounds})
        return self._lark.schema({"type": kind})

    def _array(self, schema: Schema) -> str:
        least, most = schema.get("minItems"), schema.get("maxItems")
        least = least if isinstance(least, int) else 0
        if most == 0:
            return '"[]"'
        item = self._lark.rule(self._value(schema.get("items", {})))
        more = f' ("," {item}){{{max(least - 1, 0)},{most - 1 if isinstance(most, int) else ""}}}' if most != 1 else ""
        return f'"[" ({item}{more}){"" if least else "?"} "]"'

    def _object(self, schema: Schema) -> str:
        properties, required = named_in(schema)
        others = schema.get("additionalProperties", "properties" not in schema)
        keys = []
        for name in sorted(properties, key=str.lower):
            try:
                pair = self._pair(self._lark.literal(f"{_noted_key(name)}:"), properties[name])
            except NothingFits:
                if name in required:
                    raise
                continue
            keys.append((pair, name in required))
        if others is not False:
            pair = self._pair(f'{self._lark.word(_ANY_KEY, besides=properties)} ":"', others)
            keys.append((self._lark.rule(f'{pair} ("," {pair})*'), False))
        listed = self._lark.listed(keys, separator='","')
        return f'"{{" {listed} "}}"'

    def _pair(self, key: str, schema: object) -> str:
        return self._lark.rule(f"{key} {self._value(schema)}")

    def _anything(self) -> str:
        return self._once("", lambda: " | ".join(self._of_kind(kind, {}) for kind in _KINDS))

    def _referred(self, reference: object) -> str:
        return self._once(str(reference), lambda: self._value(referred(self._root, reference)))

    def _once(self, key: str, write: Callable[[], str]) -> str:
        """The name of a rule, which may refer to itself."""
        if key not in self._rules:
            self._rules[key] = self._lark.reserve()
            self._lark.define(self._rules[key], write())
        return self._rules[key]

    def _words(self, schema: Schema) -> str:
        fitting = values_of(schema)
        if not fitting:
            raise NothingFits
        return self._lark.any_of([self._lark.literal(noted(value)) for value in fitting])


def noted(value: object) -> str:
    """A value in gemma's notation."""
    match value:
        case str():
            return f"{STRING_MARK}{value}{STRING_MARK}"
        case Mapping():
            keys = sorted(value, key=str.lower)
            return f"{{{','.join(f'{_noted_key(key)}:{noted(value[key])}' for key in keys)}}}"
        case list():
            return f"[{','.join(map(noted, value))}]"
    return json.dumps(value)


def _noted_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else f"{STRING_MARK}{name}{STRING_MARK}"


def _kinds_of(schema: object) -> tuple[str, ...]:
    """The types of JSON that a schema speaks of; an integer is a number."""
    if not isinstance(schema, Mapping):
        return _KINDS
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return (WIDER.get(kinds, kinds),)
    if isinstance(kinds, Sequence):
        return tuple(dict.fromkeys(WIDER.get(str(kind), str(kind)) for kind in kinds))
    spoken = tuple(kind for kind, keywords in _KEYWORDS_OF_KIND.items() if keywords & schema.keys())
    return spoken or _KINDS


def _narrowed(kinds: object) -> str:
    """The type of the numbers that these types allow."""
    is_integer = kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds and "number" not in kinds)
    return "integer" if is_integer else "number"


def _merged(rest: Schema, alternative: Schema) -> Schema:
    """Both at once."""
    both: dict[str, object] = {**rest, **alternative}
    for keyword in rest.keys() & alternative.keys() - _ANNOTATIONS:
        if keyword == "required":
            both[keyword] = [*listed(rest[keyword]), *listed(alternative[keyword])]
        elif rest[keyword] != alternative[keyword]:
            raise cannot_bind(keyword)
    return both
