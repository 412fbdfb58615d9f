import json

import pytest

from dayzero.grammar.call_grammar import binding_triggers, call_grammar
from dayzero.grammar.format import Format
from dayzero.grammar.formats.pythonic import PYTHONIC
from dayzero.grammar.formats.qwen3_coder import QWEN3_CODER
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.lark import MAX_SPACES
from dayzero.grammar.parser import OutputParser
from dayzero.grammar.tools import Tool
from tests.grammar.bytes_vocabulary import BytesVocabulary
from tests.grammar.reading import Answer
from tests.grammar.written import Call, written

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "loud": {"type": "boolean"},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "near": {"type": "object", "properties": {"km": {"type": ["number", "null"]}}, "additionalProperties": False},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string"}},
}
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [Tool("weather", WEATHER), Tool("ping", {"type": "object", "properties": {}}), Tool("note", NOTE)]

EVERYTHING = {
    "city": "\"Köln\" \\ 'x' 😀\nthere",
    "days": 3,
    "unit": "C",
    "loud": True,
    "tags": ["x", "y"],
    "near": {"km": None},
}
ONE = [[Call("weather", {"city": "Köln"})], [Call("weather", EVERYTHING)], [Call("ping", {})]]
SEVERAL = [
    [Call("ping", {}), Call("note", {"text": "a, b) ] } </tool_cal"})],
    [Call("note", {"text": "1"}), Call("note", {"text": ""})],
]
REFUSED = [
    Call("weather", {"city": "x", "days": "no"}),
    Call("weather", {"days": 1}),
    Call("weather", {"city": "x", "unit": "K"}),
    Call("unknown", {}),
]


def grammar_of(found: Format, vocabulary: BytesVocabulary, *, parallel: bool = True, after: bool = False) -> str:
    source = call_grammar(found, TOOLS, parallel=parallel, after_trigger=after, token_ids=vocabulary.token_ids)
    assert source is not None
    return source


def has_grammar(found: Format) -> bool:
    return call_grammar(found, TOOLS, parallel=True, after_trigger=False, token_ids={}) is not None


@pytest.fixture(params=[found for found in FORMATS.values() if has_grammar(found)], ids=lambda found: found.name)
def found(request: pytest.FixtureRequest) -> Format:
    return request.param


@pytest.fixture(params=[False, True], ids=["as text", "as tokens"])
def vocabulary(request: pytest.FixtureRequest, found: Format) -> BytesVocabulary:
    return BytesVocabulary(found.markers if request.param else ())


def test_calls_read_as_what_was_written(found: Format) -> None:
    for calls in ONE + SEVERAL:
        parser, answer = OutputParser(found, TOOLS), Answer()
        for part in (*parser.push([written(found, calls)]), *parser.finish()):
            answer.add(part)
        assert [Call(call.name, json.loads(call.arguments)) for call in answer.calls] == calls
        assert answer.text == ""


def test_calls_as_a_model_writes_them_are_accepted(found: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(found, vocabulary)
    for calls in ONE + SEVERAL:
        assert vocabulary.accepts(source, written(found, calls)), calls


def test_what_breaks_the_schema_is_refused(found: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(found, vocabulary)
    for call in REFUSED:
        assert not vocabulary.accepts(source, written(found, [call])), call


def test_only_one_call_is_accepted_where_several_are_not_wanted(found: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(found, vocabulary, parallel=False)
    assert all(vocabulary.accepts(source, written(found, calls)) for calls in ONE)
    assert not any(vocabulary.accepts(source, written(found, calls)) for calls in SEVERAL)


def test_after_a_trigger_the_rest_of_a_call_is_accepted(found: Format, vocabulary: BytesVocabulary) -> None:
    if not binding_triggers(found) or found.bare:
        pytest.skip("calls begin without a trigger")
    source = grammar_of(found, vocabulary, after=True)
    for calls in ONE:
        assert vocabulary.accepts(source, written(found, calls).removeprefix(found.triggers[0])), calls


def test_white_space_does_not_go_on_forever(found: Format) -> None:
    vocabulary = BytesVocabulary()
    source = grammar_of(found, vocabulary)
    output = written(found, [Call("weather", {"city": "x", "days": 12345})])
    begin, end = output.split("12345")
    at = len(begin)
    spaces = " " * (MAX_SPACES + 2)
    assert vocabulary.num_accepted(source, begin + spaces + "12345" + end) <= at + MAX_SPACES


@pytest.mark.parametrize("value", ["None", "null", '"None"'])
def test_what_may_be_null_in_a_pythonic_call_is_either_language_s_word_or_a_string(value: str) -> None:
    tools = [Tool("f", {"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]})]
    source = call_grammar(PYTHONIC, tools, parallel=False, after_trigger=False, token_ids={})
    assert source is not None
    assert BytesVocabulary().accepts(source, f"[f(a={value})]")
    assert not BytesVocabulary().accepts(source, f"[f(a={value}")


def test_the_length_of_a_string_between_tags_is_bound() -> None:
    tools = [Tool("f", {"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 4}}, "required": ["a"]})]
    source = call_grammar(QWEN3_CODER, tools, parallel=False, after_trigger=False, token_ids={})
    assert source is not None
    lengths = range(1, 7)
    accepted = [BytesVocabulary().accepts(source, written(QWEN3_CODER, [Call("f", {"a": "x" * n})])) for n in lengths]
    assert accepted == [2 <= n <= 4 for n in lengths]
