"""bench/suites: cases as text, and what a grammar says of them."""

import random

import pytest

from bench.suites.calls import arguments, parameters
from bench.suites.grammar import ByteGrammar, Refused
from bench.suites.instances import canonical, ordered

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "schema",
    [
        PERSON,
        {"$ref": "#/$defs/person", "$defs": {"person": PERSON}},
        {"anyOf": [{"type": "array"}, PERSON]},
        {"allOf": [PERSON]},
    ],
)
def test_keys_are_put_in_the_order_of_the_schema(schema: dict) -> None:
    assert list(ordered({"age": 3, "name": "x"}, schema, schema)) == ["name", "age"]


def test_keys_inside_lists_and_of_patterns_are_put_in_order_too() -> None:
    schema = {"patternProperties": {"^p": {"items": PERSON}}}
    assert canonical(ordered({"p1": [{"age": 3, "name": "x"}]}, schema, schema)) == '{"p1": [{"name": "x", "age": 3}]}'


def test_a_grammar_tells_a_valid_text_from_others() -> None:
    grammar = ByteGrammar(PERSON)
    assert grammar.accepts('{"name": "x", "age": 3}')
    for text in (
        "",
        "{",
        '{"name": "x"}',
        '{"age": 3, "name": "x"}',
        '{"name": "x", "age": 3}}',
        '{"name": 1, "age": 3}',
    ):
        assert not grammar.accepts(text)


def test_a_schema_that_cannot_be_held_to_is_refused_by_keyword() -> None:
    with pytest.raises(Refused, match="uniqueItems"):
        ByteGrammar({"type": "array", "uniqueItems": True})


def test_what_is_drawn_depends_on_the_seed_alone_and_is_accepted() -> None:
    grammar = ByteGrammar(PERSON)
    text = grammar.draw(random.Random(1), max_bytes=1000)
    assert text is not None
    assert text == grammar.draw(random.Random(1), max_bytes=1000)
    assert grammar.accepts(text)
    assert grammar.draw(random.Random(1), max_bytes=5) is None


def test_the_leaderboards_types_become_those_of_json_schema() -> None:
    written = {
        "type": "dict",
        "properties": {"at": {"type": "tuple", "items": {"type": "float"}, "optional": True}, "x": {"type": "any"}},
        "required": ["x", "nothing"],
    }
    assert parameters({"parameters": written}) == {
        "type": "object",
        "properties": {"at": {"type": "array", "items": {"type": "number"}}, "x": {"type": "string"}},
        "required": ["x"],
        "additionalProperties": False,
    }


def test_an_answer_is_every_choice_in_turn_without_what_may_be_left_out() -> None:
    answer = {"a": [1, 2], "b": ["x", ""], "c": [{"d": [3, 4], "e": [""]}], "f": []}
    assert list(arguments(answer)) == [{"a": 1, "b": "x", "c": {"d": 3}}, {"a": 2, "c": {"d": 3}}]
