"""The parser on what other projects say of outputs, however an output is cut."""

import json

import pytest

from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import Parser, parser_for
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tools import Tool
from tests.grammar.reading import Answer, ReadCall, read, read_every_way
from tests.grammar.splits import splits_of, with_marker_tokens
from tests.grammar.upstream_cases import Case, cases_of
from tests.grammar.written import Call, written

FILES = {name: name.replace("-", "_").replace(".", "") for name in FORMATS}
CASES = [(FORMATS[name], number, case) for name, file in FILES.items() for number, case in enumerate(cases_of(file))]


def parser_of(form: Format, case: Case, tokens: frozenset[str] = frozenset()) -> Parser:
    return parser_for(form, case.offered(), starts_in_reasoning=case.starts_in_reasoning, marker_tokens=tokens)


@pytest.mark.parametrize(("form", "number", "case"), CASES, ids=[f"{form.name}-{n}" for form, n, _ in CASES])
def test_an_output_says_the_same_however_it_is_cut(form: Format, number: int, case: Case) -> None:  # noqa: ARG001
    answer = read(parser_of(form, case), [case.output])
    check(answer, case)
    for pieces in splits_of(case.output):
        assert read(parser_of(form, case), pieces) == answer, pieces
    tokens = frozenset(form.markers)
    assert read(parser_of(form, case, tokens), with_marker_tokens(case.output, tokens)) == answer


def test_a_call_that_breaks_off_does_not_take_the_next_one_with_it() -> None:
    broken = '<|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>{"x": 1<|tool_call_end|>'
    whole = '<|tool_call_begin|>functions.b:1<|tool_call_argument_begin|>{"y": 2}<|tool_call_end|>'
    output = f"<|tool_calls_section_begin|>{broken}{whole}<|tool_calls_section_end|>"
    tools = [Tool("a", {}), Tool("b", {})]
    answer = read_every_way(lambda: parser_for(FORMATS["kimi-k2"], tools), output)
    assert answer == Answer(calls=[ReadCall("a", '{"x": 1', False), ReadCall("b", '{"y": 2}', True)])


def test_one_object_of_all_arguments_may_stand_beside_calls_of_tags() -> None:
    form = FORMATS["deepseek-v3.2"]
    shape = form.shape
    assert isinstance(shape, Tagged)
    city, ping = Call("weather", {"city": f"Köln {shape.tags.end}", "near": {"km": [1]}}), Call("ping", {})
    inline = (
        f"{shape.begin}weather{shape.name_end}\n{json.dumps(city.arguments, ensure_ascii=False)}\n{shape.tags.end}\n"
    )
    output = written(form, [ping, ping]).replace(shape.begin, inline + shape.begin)
    offered = [Tool("weather", {}), Tool("ping", {})]
    answer = read_every_way(lambda: parser_for(form, offered), output)
    assert [Call(call.name, json.loads(call.arguments)) for call in answer.calls] == [city, ping, city, ping]
    assert answer.text == ""
    for end in range(len(output)):
        ways = ([output[:end]], list(output[:end]))
        assert len({str(read(parser_for(form, offered), way)) for way in ways}) == 1, output[:end]


@pytest.mark.parametrize("end", ["<|/tool_call|>", " \n<|/tool_call|>", "", " \n"])
def test_what_may_follow_a_list_of_calls_is_no_text_and_may_be_missing(end: str) -> None:
    form = FORMATS["phi-4-mini"]
    for trigger in form.triggers:
        output = f'{trigger}[{{"name": "f", "arguments": {{}}}}]{end} <|/tool'
        answer = read_every_way(lambda: parser_for(form, [Tool("f", {})]), output)
        assert answer.calls == [ReadCall("f", "{}", True)]
        assert answer.text.strip() == "<|/tool"


def check(answer: Answer, case: Case) -> None:
    """White space around texts is not compared: the sources disagree about it."""
    expected = case.expected
    assert all(call.is_complete for call in answer.calls), case.about
    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [
        (call.name, call.arguments) for call in expected.calls
    ], case.about
    if expected.text is not None:
        assert answer.text.strip() == expected.text.strip(), case.about
    if expected.reasoning is not None:
        assert answer.reasoning.strip() == expected.reasoning.strip(), case.about


def test_what_python_would_warn_of_in_a_value_is_not_printed() -> None:
    parser = parser_for(FORMATS["pythonic"], [Tool("f", {})])
    answer = read(parser, ['[f(a=["\\d", 1is 1])]', ""])
    assert answer.calls[0].is_complete is False
    answer = read(parser_for(FORMATS["pythonic"], [Tool("f", {})]), ['[f(a=["\\d"])]'])
    assert json.loads(answer.calls[0].arguments) == {"a": ["\\d"]}
