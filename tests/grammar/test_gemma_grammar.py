"""Arguments in gemma's notation, bound by a tool's schema."""

import json
from collections.abc import Mapping

import pytest

from dayzero.errors import RequestError
from dayzero.grammar.gemma_grammar import GemmaGrammar, noted
from dayzero.grammar.gemma_object import STRING_MARK, GemmaObject
from dayzero.grammar.lark import Lark
from tests.grammar.bytes_vocabulary import BytesVocabulary

Schema = Mapping[str, object]

TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}},
            "required": ["value"],
            "additionalProperties": False,
        }
    },
}


def of(schema: object) -> Schema:
    """A tool of one argument."""
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def source_of(schema: Schema, token_ids: Mapping[str, int]) -> str:
    lark = Lark(token_ids)
    return lark.source(GemmaGrammar(lark, schema).arguments())


@pytest.fixture(params=[(), (STRING_MARK,)], ids=["as text", "as tokens"])
def vocabulary(request: pytest.FixtureRequest) -> BytesVocabulary:
    return BytesVocabulary(request.param)


CASES: list[tuple[Schema, list[object], list[object]]] = [
    (of({"type": "string"}), [{"a": 'x"{}\n'}, {"a": ""}], [{"a": 1}, {}, {"a": "x", "b": 1}]),
    (of({"type": "string", "minLength": 2, "maxLength": 3}), [{"a": "xy"}, {"a": "xyz"}], [{"a": "x"}, {"a": "wxyz"}]),
    (of({"type": "string", "pattern": "^[ab]+/$"}), [{"a": "ab/"}], [{"a": "ab"}, {"a": "c/"}]),
    (of({"type": "string", "pattern": "b"}), [{"a": "abc"}, {"a": "b"}], [{"a": "ac"}]),
    (of({"type": "integer", "minimum": 3}), [{"a": 3}], [{"a": 2}, {"a": 3.5}, {"a": "3"}]),
    (of({"type": ["number", "null"]}), [{"a": 3.5}, {"a": None}], [{"a": True}]),
    (of({"enum": ["x", 1, {"b": [None]}]}), [{"a": "x"}, {"a": 1}, {"a": {"b": [None]}}], [{"a": "y"}, {"a": 2}]),
    (of({"type": "string", "enum": ["x", 1]}), [{"a": "x"}], [{"a": 1}]),
    (of({"const": "x"}), [{"a": "x"}], [{"a": "y"}]),
    (of({"type": "array", "items": {"type": "boolean"}}), [{"a": []}, {"a": [True, False]}], [{"a": [1]}, {"a": True}]),
    (of({"type": "array", "minItems": 2, "maxItems": 3}), [{"a": [1, "x"]}, {"a": [1, [], {}]}], [{"a": [1]}]),
    (of({"type": "array", "maxItems": 1}), [{"a": []}, {"a": [1]}], [{"a": [1, 2]}]),
    (of({"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]}), [{"a": "x"}, {"a": {}}], [{"a": 1}]),
    (of({"oneOf": [{"type": "string"}, {"type": "null"}]}), [{"a": "x"}, {"a": None}], [{"a": 1}]),
    (of({"allOf": [{"type": "string"}]}), [{"a": "x"}], [{"a": 1}]),
    (of({}), [{"a": {"b": [1, {"c": "x"}], "d_e": None}}], []),
    (of(True), [{"a": 1}], []),
    ({"type": "object"}, [{}, {"x": 1, "y": {"z": "w"}}], []),
    ({"type": "object", "properties": {}}, [{}], [{"x": 1}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"x": 1}], [{"x": "y"}]),
    ({"properties": {"a": {"type": "string", "enum": [1]}, "b": {}}}, [{"b": 1}, {}], [{"a": "x"}, {"a": 1}]),
    (TREE, [{"root": {"value": 1, "left": {"value": 2}}}], [{"root": {"left": {"value": 2}}}]),
    (
        {"properties": {"b": {"type": "integer"}, "A": {"type": "integer"}, "c d": {}, "e": {}}, "required": ["b"]},
        [{"b": 1}, {"b": 1, "A": 2}, {"b": 1, "c d": "x"}, {"A": 1, "b": 2, "c d": 3, "e": 4}],
        [{}, {"A": 1}, {"e": 1}],
    ),
]


@pytest.mark.parametrize(("schema", "fitting", "others"), CASES)
def test_what_fits_a_schema_is_accepted_and_read_and_nothing_else_is(
    schema: Schema, fitting: list[object], others: list[object], vocabulary: BytesVocabulary
) -> None:
    source = source_of(schema, vocabulary.token_ids)
    for value in fitting:
        assert vocabulary.accepts(source, noted(value)), value
        assert json.loads(GemmaObject().feed(noted(value))[0]) == value
    assert not [value for value in others if vocabulary.accepts(source, noted(value))]


def test_a_string_does_not_say_its_own_mark(vocabulary: BytesVocabulary) -> None:
    source = source_of(of({"type": "string"}), vocabulary.token_ids)
    assert not vocabulary.accepts(source, f"{{a:{STRING_MARK}x{STRING_MARK}y{STRING_MARK}}}")


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "patternProperties": {"x": {}}}, "patternProperties"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "oneOf"),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "allOf"),
        ({"$ref": "#/$defs/missing"}, "#/$defs/missing"),
        ({"$ref": "https://elsewhere"}, "https://elsewhere"),
        ({"$ref": "#", "minProperties": 1}, "minProperties"),
        ({"$ref": "#", "required": ["b"]}, "$ref"),
        ({"type": "object", "properties": {}, "required": ["b"]}, "requires"),
        ({"type": "string", "enum": [1]}, "nothing fits"),
        (False, "nothing fits"),
    ],
)
def test_what_cannot_be_bound_is_refused_by_its_name(schema: object, named: str) -> None:
    with pytest.raises(RequestError, match=named.replace("$", r"\$")):
        source_of(of(schema), {})
