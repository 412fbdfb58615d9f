"""What an output shall be, as clients say it, and the grammar of it. Pure; nothing is compiled here."""

from collections.abc import Mapping
from dataclasses import dataclass

from dayzero.errors import RequestError
from dayzero.grammar.lark import Lark
from dayzero.grammar.void import without_void

MAX_SCHEMA_DEPTH = 32
MAX_VALUES = 5000  # of an enum, or choices
MAX_BOUND = 10_000  # of a count, or a least length; a greatest length costs nothing, and real schemas say millions
MAX_REGEX_CHARS = 1024

MAX_EXACT = 2**53

_DATA = ("enum", "examples")
_NUMBERS = ("const", "enum", "multipleOf")
_BOUNDS = ("minItems", "maxItems", "minLength", "minProperties", "maxProperties")


@dataclass(frozen=True, slots=True)
class JsonWanted:
    """JSON that fits a schema."""

    schema: Mapping[str, object]

    def body(self, lark: Lark) -> str:
        return lark.schema(without_void(self.schema))


@dataclass(frozen=True, slots=True)
class RegexWanted:
    """Text that a regular expression matches, from end to end."""

    pattern: str

    def body(self, lark: Lark) -> str:
        return lark.regex(self.pattern)


@dataclass(frozen=True, slots=True)
class ChoiceWanted:
    """One of these texts."""

    texts: tuple[str, ...]

    def body(self, lark: Lark) -> str:
        return lark.any_of([lark.spelt(text) for text in self.texts])


@dataclass(frozen=True, slots=True)
class GrammarWanted:
    """What a Lark grammar with the rule `start` derives; see `gate.Gate.lark_of` for other notations."""

    lark: str

    def body(self, lark: Lark) -> str:
        return lark.nested(self.lark)


Wanted = JsonWanted | RegexWanted | ChoiceWanted | GrammarWanted

ANY_OBJECT = JsonWanted({"type": "object"})


def check_schema(schema: Mapping[str, object], param: str) -> None:
    """Refuse what no compiler should be given. What the keywords mean, the compiler knows."""
    level: list[object] = [schema]
    for _ in range(MAX_SCHEMA_DEPTH):
        deeper: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                _check_keywords(value, param)
                deeper += [child for key, child in value.items() if _may_hold_schemas(key, child)]
            elif isinstance(value, list):
                deeper += [child for child in value if isinstance(child, Mapping | list)]
        if not deeper:
            return
        level = deeper
    raise _refused(f"schema nested too deeply (limit: {MAX_SCHEMA_DEPTH})", param)


def check_regex(pattern: str, param: str) -> None:
    if not pattern or "\0" in pattern:
        raise _refused("the regular expression is empty or has NUL in it", param)
    if len(pattern) > MAX_REGEX_CHARS:
        raise _refused(f"regular expression too long: {len(pattern)} characters (limit: {MAX_REGEX_CHARS})", param)


def check_choice(texts: tuple[str, ...], param: str) -> None:
    if not texts or not all(texts):
        raise _refused("no choices, or an empty one", param)
    if len(texts) > MAX_VALUES:
        raise _refused(f"too many choices: {len(texts)} (limit: {MAX_VALUES})", param)


def _may_hold_schemas(key: str, child: object) -> bool:
    """What stands behind these keywords is data; a property of such a name has a schema that is an object."""
    return isinstance(child, Mapping | list) and not (key in _DATA and isinstance(child, list)) and key != "const"


def _check_keywords(schema: Mapping[str, object], param: str) -> None:
    """By the type of a keyword's value, since a property may have its name: its value is a schema, then."""
    for keyword in _BOUNDS:
        bound = schema.get(keyword)
        if isinstance(bound, int | float) and bound > MAX_BOUND:
            raise _refused(f"{keyword} too large: {bound} (limit: {MAX_BOUND})", param)
    for keyword in _NUMBERS:
        _check_numbers(schema.get(keyword), keyword, param)
    values = schema.get("enum")
    if isinstance(values, list) and len(values) > MAX_VALUES:
        raise _refused(f"enum too long: {len(values)} values (limit: {MAX_VALUES})", param)
    reference = schema.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise _refused("$ref to another document", param, hint="only references within the schema, such as #/$defs/a")
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        check_regex(pattern, param)


def _check_numbers(value: object, keyword: str, param: str) -> None:
    """Integers that a double cannot hold: the compiler would round them, and then ask for another number."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_EXACT:
        raise _refused(f"{keyword} of an integer beyond 2^53, which cannot be enforced exactly", param)
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        if isinstance(inner, Mapping | list | int):
            _check_numbers(inner, keyword, param)


def _refused(message: str, param: str, *, hint: str | None = None) -> RequestError:
    return RequestError(message, param=param, code="invalid_schema", hint=hint)
