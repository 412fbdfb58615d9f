from typing import Any

import pytest

from dayzero.errors import RequestError
from dayzero.gateway.config import Limits
from dayzero.gateway.fields import GenerationFields
from dayzero.gateway.structured import Structured, structured_of
from dayzero.grammar.wanted import ANY_OBJECT, ChoiceWanted, GrammarWanted, JsonWanted, RegexWanted

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORMAT = "response_format"
OUTPUTS = "structured_outputs"


def structured(**fields: Any) -> Structured | None:
    return structured_of(GenerationFields(**fields), Limits())


@pytest.mark.parametrize("fields", [{}, {FORMAT: {"type": "text"}}])
def test_by_default_an_output_is_any_text(fields: dict[str, Any]) -> None:
    assert structured(**fields) is None


@pytest.mark.parametrize(
    ("fields", "wanted", "param"),
    [
        ({FORMAT: {"type": "json_object"}}, ANY_OBJECT, FORMAT),
        (
            {FORMAT: {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
            JsonWanted(SCHEMA),
            f"{FORMAT}.json_schema.schema",
        ),
        ({FORMAT: {"type": "json_object", "schema": SCHEMA}}, JsonWanted(SCHEMA), f"{FORMAT}.schema"),
        ({OUTPUTS: {"json": SCHEMA}}, JsonWanted(SCHEMA), f"{OUTPUTS}.json"),
        ({OUTPUTS: {"json": '{"type": "null"}'}}, JsonWanted({"type": "null"}), f"{OUTPUTS}.json"),
        ({OUTPUTS: {"json_object": True, "regex": None}}, ANY_OBJECT, OUTPUTS),
        ({OUTPUTS: {"regex": "a+"}}, RegexWanted("a+"), f"{OUTPUTS}.regex"),
        ({OUTPUTS: {"choice": ["a", "b"]}}, ChoiceWanted(("a", "b")), f"{OUTPUTS}.choice"),
        ({OUTPUTS: {"grammar": "start: /a/"}}, GrammarWanted("start: /a/"), f"{OUTPUTS}.grammar"),
        ({OUTPUTS: {"regex": "a", "disable_fallback": True}}, RegexWanted("a"), f"{OUTPUTS}.regex"),
        ({"guided_json": SCHEMA}, JsonWanted(SCHEMA), "guided_json"),
        ({"guided_regex": "a+"}, RegexWanted("a+"), "guided_regex"),
        ({"guided_choice": ["a"]}, ChoiceWanted(("a",)), "guided_choice"),
        ({"guided_grammar": 'root ::= "a"'}, GrammarWanted('root ::= "a"'), "guided_grammar"),
    ],
)
def test_every_spelling_of_a_wish_is_understood(fields: dict[str, Any], wanted: object, param: str) -> None:
    assert structured(**fields) == Structured(wanted, param)  # type: ignore[arg-type]


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({FORMAT: {"type": "json_schema"}}, f"{FORMAT}.json_schema.schema", "no schema"),
        (
            {FORMAT: {"type": "json_schema", "json_schema": {"schema": 5}}},
            f"{FORMAT}.json_schema.schema",
            "not a schema",
        ),
        ({FORMAT: {"type": "yaml"}}, f"{FORMAT}.type", "unknown type"),
        ({FORMAT: {}}, f"{FORMAT}.type", "unknown type"),
        ({FORMAT: {"type": "structural_tag"}}, f"{FORMAT}.type", "not supported"),
        ({OUTPUTS: {}}, OUTPUTS, "0 kinds"),
        ({OUTPUTS: {"json": SCHEMA, "regex": "a"}}, OUTPUTS, "2 kinds"),
        ({OUTPUTS: {"json": ""}}, f"{OUTPUTS}.json", "not JSON"),
        ({OUTPUTS: {"json": "[1]"}}, f"{OUTPUTS}.json", "not a schema"),
        ({OUTPUTS: {"json_object": False}}, f"{OUTPUTS}.json_object", "not true"),
        ({OUTPUTS: {"colour": 1, "regex": "a"}}, OUTPUTS, "unknown key"),
        ({OUTPUTS: {"regex": ""}}, f"{OUTPUTS}.regex", "empty"),
        ({OUTPUTS: {"regex": "a\0"}}, f"{OUTPUTS}.regex", "NUL"),
        ({OUTPUTS: {"regex": "a" * 1025}}, f"{OUTPUTS}.regex", "too long"),
        ({OUTPUTS: {"regex": 5}}, f"{OUTPUTS}.regex", "not a string"),
        ({OUTPUTS: {"choice": []}}, f"{OUTPUTS}.choice", "no choices"),
        ({OUTPUTS: {"choice": [""]}}, f"{OUTPUTS}.choice", "empty one"),
        ({OUTPUTS: {"choice": "ab"}}, f"{OUTPUTS}.choice", "not a list"),
        ({OUTPUTS: {"choice": ["a"] * 5001}}, f"{OUTPUTS}.choice", "too many"),
        ({OUTPUTS: {"grammar": " "}}, f"{OUTPUTS}.grammar", "empty"),
        ({OUTPUTS: {"grammar": "a" * 70_000}}, f"{OUTPUTS}.grammar", "too large"),
        ({OUTPUTS: {"structural_tag": "{}"}}, f"{OUTPUTS}.structural_tag", "not supported"),
        ({OUTPUTS: {"regex": "a", "whitespace_pattern": " "}}, f"{OUTPUTS}.whitespace_pattern", "not supported"),
        ({FORMAT: {"type": "json_object"}, "guided_regex": "a"}, "guided_regex", "beside"),
        ({"guided_json": deep(40)}, "guided_json", "nested too deeply"),
        ({"guided_json": {"items": {"enum": list(range(5001))}}}, "guided_json", "enum too long"),
        ({"guided_json": {"minItems": 10_001}}, "guided_json", "minItems too large"),
        ({"guided_json": {"minLength": 1e9}}, "guided_json", "minLength too large"),
        ({"guided_json": {"$ref": "https://example.com/a"}}, "guided_json", r"\$ref"),
        ({"guided_json": {"$ref": "file:///etc/passwd"}}, "guided_json", r"\$ref"),
        ({"guided_json": {"pattern": "a" * 2000}}, "guided_json", "too long"),
        ({"guided_json": {"const": 2**53 + 1}}, "guided_json", "exactly"),
        ({"guided_json": {"properties": {"a": {"enum": [1, [2**60]]}}}}, "guided_json", "exactly"),
        ({"guided_json": {"description": "a" * 70_000}}, "guided_json", "too large"),
    ],
)
def test_what_nothing_should_compile_is_refused_by_name(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        structured(**fields)
    assert caught.value.param == param


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"properties": {"enum": {"type": "array"}, "$ref": {"type": "string"}, "maxItems": {"minimum": 10**9}}}
    assert structured(guided_json=schema) == Structured(JsonWanted(schema), "guided_json")


def test_data_is_not_read_as_a_schema() -> None:
    schema = {"enum": [{"$ref": "http://x"}, {"maxItems": 10**9}], "const": {"minItems": 10**9}}
    assert structured(guided_json=schema) == Structured(JsonWanted(schema), "guided_json")
