import json
from collections.abc import Sequence

import pytest

from dayzero.errors import RequestError
from dayzero.grammar.call_grammar import AnswerGrammar, CallGrammar, binding_triggers, grammar_for
from dayzero.grammar.format import Format
from dayzero.grammar.formats.gemma4 import GEMMA4
from dayzero.grammar.formats.pythonic import PYTHONIC
from dayzero.grammar.formats.qwen3_coder import QWEN3_CODER
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.lark import MAX_SPACES
from dayzero.grammar.parser import parser_for
from dayzero.grammar.shapes.messages import Messages
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


def grammar_of(
    found: Format, vocabulary: BytesVocabulary, *, parallel: bool = True, tools: Sequence[Tool] = TOOLS
) -> AnswerGrammar:
    return grammar_for(found, tools, parallel=parallel, token_ids=vocabulary.token_ids, eos_token_ids=())


def one_call(found: Format, tools: Sequence[Tool]) -> str:
    """The grammar of a call, in a vocabulary without markers."""
    return grammar_of(found, BytesVocabulary(), parallel=False, tools=tools).calls(starts_in_reasoning=False)


@pytest.fixture(params=FORMATS.values(), ids=lambda one: one.name)
def found(request: pytest.FixtureRequest) -> Format:
    return request.param


@pytest.fixture
def prose(found: Format) -> Format:
    """A format in which text stands for itself."""
    if isinstance(found.shape, Messages):
        pytest.skip("text has headers in this format")
    return found


@pytest.fixture(params=["as text", "as tokens", "as plain tokens"])
def vocabulary(request: pytest.FixtureRequest, found: Format) -> BytesVocabulary:
    markers = () if request.param == "as text" else found.markers
    return BytesVocabulary(markers, special=request.param != "as plain tokens")


def read(found: Format, output: str, *, starts_in_reasoning: bool = False, tools: Sequence[Tool] = TOOLS) -> Answer:
    parser, answer = parser_for(found, tools, starts_in_reasoning=starts_in_reasoning), Answer()
    for part in (*parser.push([output]), *parser.finish()):
        answer.add(part)
    return answer


def calls_in(answer: Answer) -> list[Call]:
    return [Call(call.name, json.loads(call.arguments)) for call in answer.calls]


def test_calls_read_as_what_was_written(found: Format) -> None:
    for calls in ONE + SEVERAL:
        answer = read(found, written(found, calls))
        assert calls_in(answer) == calls
        assert answer.text == ""


def test_calls_as_a_model_writes_them_are_accepted(found: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(found, vocabulary).calls(starts_in_reasoning=False)
    for calls in ONE + SEVERAL:
        assert vocabulary.accepts(source, written(found, calls)), calls


def test_what_breaks_the_schema_is_refused(found: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(found, vocabulary).calls(starts_in_reasoning=False)
    for call in REFUSED:
        assert not vocabulary.accepts(source, written(found, [call])), call


def test_an_answer_of_calls_has_no_text_beside_them(found: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(found, vocabulary).calls(starts_in_reasoning=False)
    call = written(found, ONE[0])
    for output in ("", "Hello.", f"Hello. {call}", f"{call} Hello."):
        assert not vocabulary.accepts(source, output), output


def test_only_one_call_is_accepted_where_several_are_not_wanted(found: Format, vocabulary: BytesVocabulary) -> None:
    grammar = grammar_of(found, vocabulary, parallel=False)
    for source in (grammar.calls(starts_in_reasoning=False), grammar.text_and_calls(starts_in_reasoning=False)):
        assert all(vocabulary.accepts(source, written(found, calls)) for calls in ONE)
        assert not any(vocabulary.accepts(source, written(found, calls)) for calls in SEVERAL)


def test_after_a_trigger_the_rest_of_a_call_is_accepted(prose: Format, vocabulary: BytesVocabulary) -> None:
    source = CallGrammar(prose, TOOLS, parallel=True, token_ids=vocabulary.token_ids).rest()
    for calls in ONE:
        output = written(prose, calls, triggered=True).removeprefix(prose.triggers[0])
        assert vocabulary.accepts(source, output), calls


THOUGHT = "Let me see: <tool {} \\ ``` 😀\n[f(a=1)]"


def test_what_a_model_thinks_may_stand_before_calls(found: Format, vocabulary: BytesVocabulary) -> None:
    if found.reasoning is None:
        pytest.skip("this format has no reasoning")
    begin, end = found.reasoning
    output = f"{THOUGHT}{end}\n\n{written(found, SEVERAL[0])}"
    grammar = grammar_of(found, vocabulary)
    for sources in ("calls", "text_and_calls"):
        started = getattr(grammar, sources)(starts_in_reasoning=True)
        assert vocabulary.accepts(started, output)
        assert calls_in(read(found, output, starts_in_reasoning=True)) == SEVERAL[0]
        assert not vocabulary.accepts(started, THOUGHT)
        assert vocabulary.accepts(getattr(grammar, sources)(starts_in_reasoning=False), begin + output)
    assert not vocabulary.accepts(grammar.calls(starts_in_reasoning=True), f"{THOUGHT}{end} Hello.")
    assert vocabulary.accepts(grammar.text_and_calls(starts_in_reasoning=True), f"{THOUGHT}{end} Hello.")


def test_a_call_that_ends_reasoning_is_bound(found: Format, vocabulary: BytesVocabulary) -> None:
    if not found.closes_reasoning:
        pytest.skip("calls of this format do not end reasoning")
    grammar = grammar_of(found, vocabulary)
    for source in (grammar.calls(starts_in_reasoning=True), grammar.text_and_calls(starts_in_reasoning=True)):
        for calls in ONE + SEVERAL:
            output = THOUGHT + written(found, calls)
            assert vocabulary.accepts(source, output)
            assert calls_in(read(found, output, starts_in_reasoning=True)) == calls
        assert not any(vocabulary.accepts(source, THOUGHT + written(found, [call])) for call in REFUSED)


def test_an_answer_may_be_text_with_or_without_calls(prose: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(prose, vocabulary).text_and_calls(starts_in_reasoning=False)
    text = "Hello, <you> & {me}: 1 < 2\n\n"
    for output in ("", text, " \n" + text):
        assert vocabulary.accepts(source, output)
        assert read(prose, output).text == output
    for calls in ONE + SEVERAL:
        assert vocabulary.accepts(source, written(prose, calls)), calls
        if not prose.bare:
            assert vocabulary.accepts(source, text + written(prose, calls) + text), calls


def test_a_call_among_text_is_bound(prose: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(prose, vocabulary).text_and_calls(starts_in_reasoning=False)
    for call in REFUSED:
        for text in ("", "Hello. "):
            output = text + written(prose, [call], triggered=bool(text))
            assert not vocabulary.accepts(source, output), output


def test_calls_among_text_may_begin_with_any_trigger(prose: Format, vocabulary: BytesVocabulary) -> None:
    source = grammar_of(prose, vocabulary).text_and_calls(starts_in_reasoning=False)
    for trigger in binding_triggers(prose):
        output = f"Hello. {trigger}" + written(prose, ONE[0], triggered=True).removeprefix(prose.triggers[0])
        assert vocabulary.accepts(source, output), trigger
        assert calls_in(read(prose, output)) == ONE[0]


def test_a_broken_call_among_text_is_cut_off(prose: Format, vocabulary: BytesVocabulary) -> None:
    """What the parser would take for the beginning of one is held to be one."""
    source = grammar_of(prose, vocabulary).text_and_calls(starts_in_reasoning=False)
    output = "Hello. " + written(prose, [ONE[0][0]], triggered=True)
    trigger = prose.triggers[0]
    begun = output[: output.index(trigger) + len(trigger)]
    assert vocabulary.num_accepted(source, begun + "§") == len(begun)


def test_white_space_does_not_go_on_forever(found: Format) -> None:
    vocabulary = BytesVocabulary()
    source = grammar_of(found, vocabulary).calls(starts_in_reasoning=False)
    output = written(found, [Call("weather", {"city": "x", "days": 12345})])
    begin, end = output.split("12345")
    at = len(begin)
    spaces = " " * (MAX_SPACES + 2)
    assert vocabulary.num_accepted(source, begin + spaces + "12345" + end) <= at + MAX_SPACES


def test_a_tool_that_says_nothing_of_its_arguments_takes_any(found: Format, vocabulary: BytesVocabulary) -> None:
    grammar = grammar_of(found, vocabulary, tools=[Tool("f", {"type": "object"})])
    source = grammar.calls(starts_in_reasoning=False)
    for arguments in ({}, {"a": "x"}, {"a": 1, "b": [True, {"c": None}], "d_1": "y"}):
        assert vocabulary.accepts(source, written(found, [Call("f", arguments)])), arguments
    assert not vocabulary.accepts(source, written(found, [Call("g", {})]))


@pytest.mark.parametrize("name", ["2fa", "-f_", "_", "a" * 64])
def test_a_tool_may_have_any_name_that_can_be_offered(found: Format, vocabulary: BytesVocabulary, name: str) -> None:
    tools = [Tool(name, {"type": "object", "properties": {}}), *TOOLS]
    source = grammar_of(found, vocabulary, tools=tools).calls(starts_in_reasoning=False)
    output = written(found, [Call(name, {})])
    assert vocabulary.accepts(source, output)
    assert calls_in(read(found, output, tools=tools)) == [Call(name, {})]


@pytest.mark.parametrize("value", ["None", "null", '"None"'])
def test_what_may_be_null_in_a_pythonic_call_is_either_language_s_word_or_a_string(value: str) -> None:
    tools = [Tool("f", {"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]})]
    source = one_call(PYTHONIC, tools)
    assert BytesVocabulary().accepts(source, f"[f(a={value})]")
    assert not BytesVocabulary().accepts(source, f"[f(a={value}")


def test_the_length_of_a_string_between_tags_is_bound() -> None:
    tools = [Tool("f", {"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 4}}, "required": ["a"]})]
    source = one_call(QWEN3_CODER, tools)
    lengths = range(1, 7)
    accepted = [BytesVocabulary().accepts(source, written(QWEN3_CODER, [Call("f", {"a": "x" * n})])) for n in lengths]
    assert accepted == [2 <= n <= 4 for n in lengths]


@pytest.mark.parametrize("found", [QWEN3_CODER, PYTHONIC, GEMMA4], ids=lambda found: found.name)
@pytest.mark.parametrize(
    ("parameters", "fitting", "others"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"enum": ["x", "y"]}}}, {"a": "x"}, {"a": "z"}),
        (
            {"properties": {"a": {"$ref": "#/$defs/s", "description": "x"}}, "$defs": {"s": {"type": "integer"}}},
            {"a": 1},
            {"a": [1]},
        ),
        ({"$ref": "#/$defs/p", "$defs": {"p": {"properties": {"a": {"type": "integer"}}}}}, {"a": 1}, {"a": [1]}),
        ({"properties": {"a": {"type": "integer"}}, "additionalProperties": True}, {"a": 1, "bc": "x"}, {"a": [1]}),
        ({"properties": {"a": {"type": "integer", "enum": ["1"]}, "b": {}, "c": False}}, {"b": 1}, {"a": "1"}),
        ({"properties": {"a": {"type": "string", "pattern": "^x|y$"}}}, {"a": "ay"}, {"a": "ax"}),
        ({"properties": {"a": {"type": "string", "pattern": "^(a|[|)/])$"}}}, {"a": "|"}, {"a": "b"}),
    ],
)
def test_arguments_that_stand_apart_are_bound_by_what_their_schema_says(
    found: Format, parameters: dict[str, object], fitting: dict[str, object], others: dict[str, object]
) -> None:
    source = one_call(found, [Tool("f", parameters)])
    assert BytesVocabulary().accepts(source, written(found, [Call("f", fitting)]))
    assert not BytesVocabulary().accepts(source, written(found, [Call("f", others)]))


@pytest.mark.parametrize("found", [QWEN3_CODER, PYTHONIC], ids=lambda found: found.name)
@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}, "anyOf"),
        ({"properties": {"a": {}}, "minProperties": 1}, "minProperties"),
        ({"properties": {"a": {}}, "required": ["b"]}, "requires"),
        ({"properties": {" a>": {}}}, "name"),
        ({"properties": {"a": False}, "required": ["a"]}, "nothing fits"),
        ({"$ref": "#/$defs/lost"}, "lost"),
        ({"$ref": "#/$defs/s", "required": ["a"], "$defs": {"s": {"type": "object"}}}, "beside"),
        ({"properties": {"a": {"$ref": "#/$defs/s", "maxLength": 1}}, "$defs": {"s": {}}}, "beside"),
    ],
)
def test_a_schema_that_cannot_be_bound_is_refused(found: Format, parameters: dict[str, object], named: str) -> None:
    with pytest.raises(RequestError, match=named):
        one_call(found, [Tool("f", parameters)])


def test_what_constrains_beside_a_reference_among_a_strings_alternatives_is_refused() -> None:
    alternatives = {"anyOf": [{"$ref": "#/$defs/s", "pattern": "x"}]}
    with pytest.raises(RequestError, match="beside"):
        one_call(QWEN3_CODER, [Tool("f", {"properties": {"a": alternatives}, "$defs": {"s": {"type": "string"}}})])
