"""The changes of a stream's chunks come to the document, however its text was spread over them."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import llguidance
import llguidance.numpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.errors import RequestError
from dayzero.gateway.json_changes import JsonChanges, JsonOutput, changes_of
from dayzero.grammar.partial_json import MAX_DEPTH
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Reasoning, Text
from tests.gateway.json_client import Document, told

ANY_JSON = JsonOutput(text=True)
BY_SCHEMA = JsonOutput(text=True, has_schema=True)

DOCUMENTS = [
    '{"title":"A \\"quoted\\" title","n":[1,-2.50,3e2],"empty":{},"none":[],"deep":{"a":{"b":[true,null,""]}}}',
    r'{"smile":"\uD83D\uDE00","half":"\uD83D","tail\/~1":"\u00e9\n","":0}',
    '{"a":{"b":1},"a":{"c":2},"s":"x","s":"y"}',
    '{"é漢😀":"é漢😀"}',
    '[[[1],[2,[3]]],{"0":[]}]',
    '"only a string"',
    " -12.5e-3",
    "1e999",
    "123456789012345678901234567890.10",
    "true",
    " {\n } ",
]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)


def stream(pieces: Sequence[str], output: JsonOutput = ANY_JSON, finish: str = "stop") -> Iterator[dict[str, Any]]:
    """What the chunks of one choice tell."""
    changes = JsonChanges(output)
    for piece in pieces:
        yield told(changes.of_part(0, Text(piece)))
    yield told(changes.of_text(0, "", finish))


def read(pieces: Sequence[str], output: JsonOutput = ANY_JSON, finish: str = "stop") -> tuple[Document, dict[str, Any]]:
    """The document that a client comes to, and the last that it is told."""
    document = Document()
    last: dict[str, Any] = {}
    for last in stream(pieces, output, finish):
        document.apply(last.get("changes", ()))
    return document, last


def verdict(text: str, output: JsonOutput, finish: str = "stop") -> tuple[bool, bool | None]:
    last = read([text], output, finish)[1]
    return last["complete"], last["valid"]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_every_split_comes_to_what_json_loads_makes_of_the_whole(text: str) -> None:
    expected = json.loads(text)
    whole, _ = read([text])
    for pieces in (list(text), *([text[:cut], text[cut:]] for cut in range(len(text) + 1))):
        document, last = read(pieces)
        assert json.dumps(document.value) == json.dumps(expected), pieces  # 1 and 1.0 differ, and so do 0.0 and -0.0
        assert document.completed == whole.completed
        assert (last["complete"], last["valid"]) == (True, True)


@given(VALUES, st.booleans(), st.data())
def test_any_document_in_any_pieces_is_assembled(value: Any, ascii_only: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    document, last = read(pieces)
    assert json.dumps(document.value) == json.dumps(json.loads(text))
    assert last["complete"]


def test_a_field_is_shown_while_it_is_written_and_named_when_it_is_whole() -> None:
    chunks = list(stream(['{"title"', ':"Dr', "aft", '","n":4', "2}"]))
    assert chunks == [
        {"changes": [{"path": "", "value": {}}]},
        {"changes": [{"path": "/title", "value": "Dr"}]},
        {"changes": [{"path": "/title", "append": "aft"}]},
        {"changes": [{"path": "/title", "complete": True}]},
        {"changes": [{"path": "/n", "value": 42, "complete": True}, {"path": "", "complete": True}]},
        {"changes": [], "complete": True, "valid": True},
    ]


def test_a_chunk_that_changes_nothing_says_nothing() -> None:
    changes = JsonChanges(ANY_JSON)
    changes.of_part(0, Text("["))
    assert changes.of_part(0, Text("\n  ")) == b""


def test_numbers_come_as_they_were_written() -> None:
    changes = JsonChanges(ANY_JSON)
    assert b'"value":1.50e+2,' in changes.of_part(0, Text("[1.50e+2,"))


def test_half_a_surrogate_pair_that_stays_alone_is_escaped() -> None:
    chunk = JsonChanges(ANY_JSON).of_part(0, Text(r'{"a":"x\ud83d"}'))
    assert json.loads(chunk)["changes"][1]["value"] == "x\ud83d"


def test_choices_have_documents_of_their_own() -> None:
    changes = JsonChanges(ANY_JSON)
    changes.of_part(0, Text("[1"))
    changes.of_part(1, Text('{"a":'))
    assert told(changes.of_part(0, Text("]")))["changes"] == [
        {"path": "/0", "value": 1, "complete": True},
        {"path": "", "complete": True},
    ]
    assert told(changes.of_part(1, Text("null")))["changes"] == [{"path": "/a", "value": None, "complete": True}]


def test_what_the_model_thinks_is_no_part_of_the_document() -> None:
    changes = JsonChanges(ANY_JSON)
    assert changes.of_part(0, Reasoning("{")) == b""
    assert told(changes.of_text(0, "[]", "stop"))["complete"]


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("", "stop"),
        ('{"a":[1,2', "length"),
        ('{"a":"b', "length"),
        ("12", "length"),  # of 123, perhaps
        ("{} and so on", "stop"),
        ("Sure! {}", "stop"),
        ("NaN", "stop"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "stop"),
    ],
)
def test_what_is_cut_or_no_json_or_not_read_is_neither_complete_nor_valid(text: str, finish: str) -> None:
    assert verdict(text, ANY_JSON, finish) == verdict(text, BY_SCHEMA, finish) == (False, False)


@pytest.mark.parametrize("text", ["{}", "true", "12 ", '"s"'])
def test_a_document_that_was_whole_when_tokens_ran_out_is_complete(text: str) -> None:
    assert verdict(text, BY_SCHEMA, "length") == (True, True)


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', r'{"\u0061":1}'])
def test_of_names_that_a_grammar_does_not_know_apart_nobody_says_that_they_are_valid(text: str) -> None:
    assert verdict(text, BY_SCHEMA) == (True, None)
    assert verdict(text, ANY_JSON) == (True, True)


def test_a_number_that_a_stop_string_may_have_cut_is_not_called_valid() -> None:
    cut = JsonOutput(text=True, has_schema=True, can_be_cut=True)
    assert verdict("1", cut) == (True, None)
    assert verdict("[1]", cut) == (True, True)
    assert verdict("1", BY_SCHEMA) == (True, True)


def test_arguments_of_calls_are_documents_too() -> None:
    changes = JsonChanges(JsonOutput(calls=True))
    parts = [
        Text("text is not read"),
        CallStarted(0, "f"),
        CallArguments(0, '{"city":"Kö'),
        CallArguments(0, 'ln"}'),
        CallEnded(0, is_complete=True),
        CallStarted(1, "f"),
        CallArguments(1, '{"city"'),
        CallEnded(1, is_complete=False),
    ]
    assert [told(changes.of_part(0, part)) for part in parts] == [
        {},
        {},
        {"tool_call": 0, "changes": [{"path": "", "value": {}}, {"path": "/city", "value": "Kö"}]},
        {
            "tool_call": 0,
            "changes": [{"path": "/city", "append": "ln", "complete": True}, {"path": "", "complete": True}],
        },
        {"tool_call": 0, "changes": [], "complete": True},
        {},
        {"tool_call": 1, "changes": [{"path": "", "value": {}}]},
        {"tool_call": 1, "changes": [], "complete": False},
    ]
    assert changes.of_text(0, "", "stop") == b""


def test_an_answer_that_is_calls_alone_has_no_text_to_be_judged() -> None:
    changes = JsonChanges(JsonOutput(text=True, has_schema=True, calls=True))
    for part in (CallStarted(0, "f"), CallArguments(0, "{}"), CallEnded(0, is_complete=True)):
        changes.of_part(0, part)
    assert changes.of_text(0, "", "stop") == b""
    assert told(changes.of_text(1, "", "stop")) == {"changes": [], "complete": False, "valid": False}


def test_a_long_document_costs_bytes_in_proportion() -> None:
    def num_bytes(num_pieces: int) -> int:
        changes = JsonChanges(ANY_JSON)
        pieces = ['{"essay":"', *["words\\n "] * num_pieces, '"}']
        return sum(len(changes.of_part(0, Text(piece))) for piece in pieces)

    per_piece = (num_bytes(2000) - num_bytes(1000)) / 1000
    assert num_bytes(4000) - num_bytes(2000) == pytest.approx(2000 * per_piece)


def test_only_an_answer_with_json_in_it_can_be_asked_for_its_changes() -> None:
    assert changes_of(JsonOutput(), is_asked=False) is None
    assert changes_of(ANY_JSON, is_asked=False) is None
    assert changes_of(JsonOutput(calls=True), is_asked=True) is not None
    with pytest.raises(RequestError, match="response_format"):
        changes_of(JsonOutput(), is_asked=True)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "integer", "minimum": 10},
    {"enum": ["a", "abc", 1, 12, [1], None]},
    {"type": "array", "items": {"type": "number", "exclusiveMaximum": 50}, "minItems": 2, "maxItems": 4},
    {"type": "object", "minProperties": 2, "maxProperties": 3, "additionalProperties": {"type": "integer"}},
    {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 2, "maxLength": 5}, "b": {"anyOf": [{"type": "null"}, {}]}},
        "required": ["b"],
        "additionalProperties": {"type": "boolean"},
    },
]


def drawn(schema: dict[str, Any], seed: int, max_chars: int) -> str:
    """What a grammar let by, of ASCII drawn with a liking for short strings and few different letters."""
    tokens = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokens, llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    rows = llguidance.numpy.allocate_token_bitmask(1, tokens.vocab_size)
    rng, text = random.Random(seed), ""
    while len(text) < max_chars and not matcher.is_stopped():
        llguidance.numpy.fill_next_token_bitmask(matcher, rows, 0)
        allowed = np.flatnonzero(np.unpackbits(rows.view(np.uint8), bitorder="little"))
        chars = [chr(token) for token in allowed if 32 <= token < 127]
        if not chars:
            break
        liked = [c for c in '""""""}],:a1' if c in chars]
        text += rng.choice(liked if liked and rng.random() < 0.95 else chars)
        matcher.consume_token(ord(text[-1]))
    return text


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_whatever_a_grammar_let_by_is_called_valid_only_if_it_is(schema: dict[str, Any]) -> None:
    cut = JsonOutput(text=True, has_schema=True, can_be_cut=True)
    validator = jsonschema.Draft202012Validator(schema)
    texts = [drawn(schema, seed, max_chars=60) for seed in range(30)]
    prefixes = {text[:length] for text in texts for length in range(len(text) + 1)}
    cut_short = {text for text in prefixes if verdict(text, cut)[1] or verdict(text, BY_SCHEMA, "length")[1]}
    assert all(validator.is_valid(json.loads(text)) for text in cut_short)
    assert cut_short or schema["type"] == "integer"  # of which nobody knows whether it is whole
