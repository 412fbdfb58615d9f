"""What a grammar of calls accepts, the parser reads as calls that fit their schemas: over schemas, and over outputs."""

import json
from collections.abc import Sequence
from random import Random

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.grammar.call_grammar import grammar_for
from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import parser_for
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import Piece
from tests.grammar.bytes_vocabulary import BytesVocabulary
from tests.grammar.reading import Answer
from tests.grammar.test_call_grammar import TOOLS
from tests.grammar.written import Call, written

Property = tuple[dict[str, object], st.SearchStrategy[object]]  # a schema, and what fits it

TEXT = st.text("aé😀\"\\'/{}[]():,=\n\t ", max_size=6)
WORDS = ["a", "Köln", "x y", "1", '"', "\\", "<", ">", "\n", "{", "}", "[", "]", "(", ")", ",", ":", "'", "null", "="]


def leaves() -> st.SearchStrategy[Property]:
    fixed: list[Property] = [
        ({"type": "string"}, TEXT),
        ({"type": "string", "enum": ["C", "x, y"]}, st.sampled_from(["C", "x, y"])),
        ({"type": "string", "minLength": 1, "maxLength": 3}, st.text("ab\n ", min_size=1, max_size=3)),
        ({"type": "string", "pattern": "^[ab]+/?$"}, st.text("ab", min_size=1, max_size=4)),
        ({"type": "integer", "minimum": -3, "maximum": 200}, st.integers(-3, 200)),
        ({"type": "number"}, st.integers(-9, 9) | st.floats(-9, 9, width=16)),
        ({"type": "boolean"}, st.booleans()),
        ({"type": ["integer", "null"]}, st.integers(0, 9) | st.none()),
    ]
    return st.sampled_from(fixed)


def an_array(item: Property) -> Property:
    return {"type": "array", "items": item[0], "maxItems": 3}, st.lists(item[1], max_size=3)


def an_object(properties: dict[str, tuple[Property, bool]]) -> Property:
    schema = {
        "type": "object",
        "properties": {name: schema for name, ((schema, _), _) in properties.items()},
        "required": [name for name, (_, is_required) in properties.items() if is_required],
        "additionalProperties": False,
    }
    required = {name: values for name, ((_, values), is_required) in properties.items() if is_required}
    optional = {name: values for name, ((_, values), is_required) in properties.items() if not is_required}
    values = st.fixed_dictionaries(required, optional=optional)
    return schema, values.map(lambda found: {name: found[name] for name in properties if name in found})


def objects(values: st.SearchStrategy[Property]) -> st.SearchStrategy[Property]:
    """Their names are sorted, as gemma writes them."""
    properties = st.dictionaries(st.sampled_from("abcde"), st.tuples(values, st.booleans()), max_size=3)
    return properties.map(lambda found: an_object(dict(sorted(found.items()))))


def properties() -> st.SearchStrategy[Property]:
    return st.recursive(leaves(), lambda inner: inner.map(an_array) | objects(inner), max_leaves=4)


@st.composite
def tools_and_calls(draw: st.DrawFn) -> tuple[Tool, Call]:
    schema, values = draw(objects(properties()))
    arguments = draw(values)
    assert isinstance(arguments, dict)
    return Tool("f", schema), Call("f", arguments)


@pytest.fixture(scope="module", params=FORMATS.values(), ids=lambda found: found.name)
def found(request: pytest.FixtureRequest) -> Format:
    return request.param


@pytest.fixture(scope="module", params=["as text", "as tokens", "as plain tokens"])
def vocabulary(request: pytest.FixtureRequest, found: Format) -> BytesVocabulary:
    markers = () if request.param == "as text" else found.markers
    return BytesVocabulary(markers, special=request.param != "as plain tokens")


def read(found: Format, tools: Sequence[Tool], vocabulary: BytesVocabulary, pieces: Sequence[Piece]) -> Answer:
    parser, answer = parser_for(found, tools, marker_tokens=frozenset(vocabulary.token_ids)), Answer()
    for part in (*parser.push(pieces), *parser.finish()):
        answer.add(part)
    return answer


@settings(max_examples=30)
@given(tools_and_calls())
def test_a_call_that_fits_any_schema_is_accepted_and_read_as_it_was(
    found: Format, vocabulary: BytesVocabulary, case: tuple[Tool, Call]
) -> None:
    tool, call = case
    grammar = grammar_for(found, [tool], parallel=True, token_ids=vocabulary.token_ids, eos_token_ids=())
    output = written(found, [call])
    assert vocabulary.accepts(grammar.calls(starts_in_reasoning=False), output)
    assert vocabulary.accepts(grammar.text_and_calls(starts_in_reasoning=False), output)
    answer = read(found, [tool], vocabulary, vocabulary.pieces(vocabulary.encode(output)))
    assert [Call(one.name, json.loads(one.arguments)) for one in answer.calls] == [call]


@pytest.mark.parametrize("parallel", [True, False])
def test_whatever_is_accepted_is_read_as_calls_that_fit(
    found: Format, vocabulary: BytesVocabulary, parallel: bool
) -> None:
    grammar = grammar_for(found, TOOLS, parallel=parallel, token_ids=vocabulary.token_ids, eos_token_ids=())
    num_read = 0
    for seed in range(12):
        for must_call in (True, False):
            write = grammar.calls if must_call else grammar.text_and_calls
            tokens = vocabulary.drawn(write(starts_in_reasoning=False), Random(seed), [*WORDS, *ends_of(found)])
            if tokens is None:
                continue
            pieces = vocabulary.pieces(tokens)
            answer = read(found, TOOLS, vocabulary, pieces)
            assert not must_call or (answer.calls and not answer.text), pieces
            assert parallel or len(answer.calls) <= 1, pieces
            for call in answer.calls:
                assert call.is_complete, pieces
                jsonschema.validate(json.loads(call.arguments), parameters_of(call.name))
            num_read += len(answer.calls)
    assert num_read, "no output was finished"


def parameters_of(name: str) -> object:
    return next(tool.parameters for tool in TOOLS if tool.name == name)


def ends_of(found: Format) -> list[str]:
    """What may end something, so that random outputs do."""
    ends = ['"', "}", "]", ")", *found.markers] * 3
    if isinstance(found.shape, Tagged):
        tags = found.shape.tags
        ends += ["\n" + tags.value_end, tags.value_end, tags.end, tags.key_begin, found.shape.section_end] * 3
    return [end for end in ends if end]
