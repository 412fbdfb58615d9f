"""What constrains nothing is not refused, and is told from a property of the same name."""

from typing import Any

import pytest

from dayzero.grammar.answer_constraint import answer_constraint, plain_constraint
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.matcher import TokenTable
from dayzero.grammar.tools import Tool
from dayzero.grammar.void import without_void
from dayzero.grammar.wanted import JsonWanted
from tests.gateway.stand import EOS, SPEC, byte_tokenizer
from tests.grammar.bytes_vocabulary import BytesVocabulary
from tests.grammar.written import Call, written

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}
VOID: list[dict[str, Any]] = [
    {"uniqueItems": False},
    {"minItems": 0},
    {"minLength": 0},
    {"minProperties": 0},
    {"contains": {"type": "integer"}, "minContains": 0},
    {"minContains": 2},
    {"maxContains": 2},
    {"unevaluatedItems": True},
    {"unevaluatedProperties": {"description": "anything"}},
    {"propertyNames": {"type": "string"}},
    {"additionalItems": False},
    {"patternProperties": {}},
    {"dependentRequired": {"a": []}},
    {"dependentSchemas": {"a": True}},
    {"dependencies": {"a": [], "b": {}}},
    {"prefixItems": []},
    {"prefixItems": [True, {}]},
    {"patternProperties": {"^x": {}}},
    {"allOf": [{}, True]},
    {"anyOf": [{"type": "string"}, {}]},
    {"not": False},
    {"if": {"type": "object"}},
    {"if": {"type": "object"}, "then": {}},
    {"then": {"type": "string"}},
    {"else": False},
    {"$dynamicAnchor": "x"},
    {"$recursiveAnchor": True},
]
SAYS_SOMETHING: list[dict[str, Any]] = [
    {"uniqueItems": True},
    {"minItems": 1},
    {"contains": {"type": "integer"}},
    {"contains": {}, "minContains": 0, "maxContains": 3},
    {"unevaluatedProperties": False},
    {"propertyNames": {"maxLength": 3}},
    {"items": [True], "additionalItems": False},
    {"dependentRequired": {"a": ["b"]}},
    {"dependencies": {"a": ["b"]}},
    {"prefixItems": [{"type": "string"}]},
    {"prefixItems": [True, {}], "items": False},
    {"prefixItems": [True], "unevaluatedItems": False},
    {"patternProperties": {"^x": True}, "additionalProperties": False},
    {"allOf": [{}, {"type": "string"}]},
    {"oneOf": [True, True]},
    {"not": {}},
    {"if": {"type": "object"}, "then": False},
    {"additionalProperties": True},
]


def fault(grammar: str) -> str | None:
    return TokenTable(byte_tokenizer().to_json(), SPEC.vocab_size, SPEC.eos_token_ids).fault(grammar)


@pytest.mark.parametrize("keywords", VOID, ids=str)
def test_a_keyword_that_constrains_nothing_is_dropped_wherever_a_schema_stands(keywords: dict[str, Any]) -> None:
    assert without_void({**OBJECT, **keywords}) == OBJECT
    within = {
        "properties": {"b": {"items": {**OBJECT, **keywords}}},
        "$defs": {"c": {"anyOf": [{"not": {}}, keywords]}},
    }
    assert without_void(within)["properties"] == {"b": {"items": OBJECT}}


@pytest.mark.parametrize("keywords", SAYS_SOMETHING, ids=str)
def test_a_keyword_that_constrains_something_stays(keywords: dict[str, Any]) -> None:
    assert without_void(keywords) == keywords


def test_names_of_properties_and_data_are_no_keywords() -> None:
    schema = {
        "properties": {"uniqueItems": False, "not": False, "minItems": True, "allOf": {"type": "array"}},
        "const": {"uniqueItems": False},
        "enum": [{"not": False}],
        "default": {"minItems": 0},
        "required": ["not"],
    }
    assert without_void(schema) == schema


@pytest.mark.parametrize("keywords", VOID, ids=str)
def test_neither_an_output_nor_the_arguments_of_a_call_are_refused_for_one(keywords: dict[str, Any]) -> None:
    schema = {**OBJECT, **keywords}
    assert fault(plain_constraint(JsonWanted(schema)).grammar) is None
    for name in ("hermes", "glm", "gemma-4"):
        bound = answer_constraint(
            FORMATS[name],
            [Tool("f", schema, strict=True)],
            mode="required",
            parallel=True,
            starts_in_reasoning=False,
            token_ids={},
            eos_token_ids=(EOS,),
        )
        assert fault(bound.grammar) is None


NEXT = {"$ref": "#/definitions/word", "type": "object", "properties": {"b": {}}, "additionalProperties": False}
DOCUMENT = {
    "type": "object",
    "properties": {"a": NEXT, "$ref": {"type": "string", "maxLength": 3}},
    "definitions": {"word": {"type": "string"}, "list": {"items": {"anyOf": [NEXT]}}},
}


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-04/schema"]
)
def test_what_stands_beside_a_reference_means_nothing_in_draft_7_and_older_ones(draft: str) -> None:
    found = without_void({"$schema": draft, **DOCUMENT})
    assert found["properties"] == {"a": {"$ref": "#/definitions/word"}, "$ref": {"type": "string", "maxLength": 3}}
    assert found["definitions"]["list"] == {"items": {"anyOf": [{"$ref": "#/definitions/word"}]}}
    assert accepts({"$schema": draft, **DOCUMENT}, '{"a": "x"}')


@pytest.mark.parametrize(
    "schema",
    [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}, {"$schema": "http://json-schema.org/schema#"}],
)
def test_in_later_drafts_it_counts(schema: dict[str, Any]) -> None:
    assert without_void({**schema, **DOCUMENT})["properties"]["a"] == NEXT


def test_a_schema_that_is_a_reference_keeps_what_it_refers_to_and_is_refused_where_that_meant_nothing() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#"}
    word = {**old, "$ref": "#/definitions/w", "definitions": {"w": {"type": "string"}}, "maxLength": 1, "title": "w"}
    assert accepts(word, '"abc"')
    assert fault(plain_constraint(JsonWanted({**old, "$ref": "#/properties/a", "properties": {"a": {}}})).grammar)


def accepts(schema: dict[str, Any], text: str) -> bool:
    table = TokenTable(byte_tokenizer().to_json(), SPEC.vocab_size, (EOS,))
    matcher = table.matcher(plain_constraint(JsonWanted(schema)).grammar)
    return matcher.take(list(text.encode())) and matcher.is_accepting


def test_arguments_that_stand_apart_are_bound_by_a_reference_of_draft_7_alone() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **DOCUMENT}
    tool = Tool("f", {**old, "properties": {"a": {"$ref": "#/definitions/word", "maxLength": 1}}}, strict=True)
    bound = answer_constraint(
        FORMATS["glm"],
        [tool],
        mode="required",
        parallel=False,
        starts_in_reasoning=False,
        token_ids={},
        eos_token_ids=(EOS,),
    )
    assert BytesVocabulary().accepts(bound.grammar, written(FORMATS["glm"], [Call("f", {"a": "abc"})]))
