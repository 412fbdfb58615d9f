"""What binds an output, from the request to what the engine is told."""

import json
from typing import Any

import numpy as np
import pytest

from dayzero.core.events import FinishReason
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.matcher import TokenTable
from tests.gateway.stand import EOS, SPEC, Stand, byte_tokenizer, says, sse, stand

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
OF_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
SET = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
UNIQUE = {"type": "function", "function": {"name": "f", "parameters": SET}}
CONTINUED = {"add_generation_prompt": False, "continue_final_message": True}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"a": 1}}\n</tool_call>'


def hermes(text: str = CALL) -> Stand:
    return stand(says(text), tool_format=FORMATS["hermes"])


def accepted(stand: Stand, *texts: str) -> list[bool]:
    """Whether the last request's grammar takes each text as a whole output."""
    constraint = stand.replica.submits[-1].constraint
    assert constraint is not None
    assert not constraint.after_tokens
    table = TokenTable(byte_tokenizer().to_json(), SPEC.vocab_size, (EOS,))
    found = []
    for text in texts:
        matcher = table.matcher(constraint.grammar)
        found.append(matcher.take(list(text.encode())) and matcher.is_accepting)
    return found


def test_a_request_that_wants_nothing_is_bound_by_no_grammar() -> None:
    one = hermes()
    assert one.chat().status_code == 200
    assert one.complete().status_code == 200
    assert [submit.constraint for submit in one.replica.submits] == [None, None]  # no marker is a token here


RESULT = [
    {"role": "user", "content": "How warm is it?"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "7"},
]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": RESULT}),
        ("/v1/chat/completions", {"messages": RESULT, "tools": [WEATHER]}),
        ("/v1/chat/completions", {"messages": RESULT[:1], "collapse_guard": "off"}),
        ("/v1/messages", {"messages": RESULT[:1], "max_tokens": 9}),
        ("/v1/responses", {"input": "How warm is it?"}),
    ],
)
def test_no_answer_invents_a_tools_result_or_a_turn_of_others_with_tools_or_without(
    path: str, body: dict[str, Any]
) -> None:
    one = stand(says("It is 7."), tool_format=FORMATS["hermes"], words=("<tool_response>",))
    assert one.post(path, body).status_code == 200
    constraint = one.replica.submits[-1].constraint
    assert constraint is not None
    assert constraint.banned == (259,)
    assert not constraint.grammar


def test_a_raw_completion_is_not_bound() -> None:
    one = stand(tool_format=FORMATS["hermes"], words=("<tool_response>",))
    assert one.complete().status_code == 200
    assert one.replica.submits[-1].constraint is None


def test_a_marker_that_is_no_token_of_the_model_is_not_banned() -> None:
    beyond = ("<a>", "<tool_response>")  # the second is 260, which the model's output does not reach
    one = stand(tool_format=FORMATS["hermes"], words=beyond)
    assert one.chat().status_code == 200
    assert one.chat(tools=[WEATHER]).status_code == 200
    assert [submit.constraint.banned for submit in one.replica.submits if submit.constraint is not None] == [()]


def test_a_request_that_wants_nothing_may_write_what_begins_a_call() -> None:
    one = stand(tool_format=FORMATS["hermes"], words=("<tool_call>",))
    assert one.chat().status_code == 200
    assert one.replica.submits[-1].constraint is None


@pytest.mark.parametrize("ask", [Stand.chat, Stand.complete])
@pytest.mark.parametrize(
    ("fields", "good", "bad"),
    [
        ({"response_format": {"type": "json_object"}}, '{"b": [1]}', "[1]"),
        ({"response_format": OF_SCHEMA}, '{"a": 5}', '{"a": "5"}'),
        ({"structured_outputs": {"regex": "^[ab]+/$"}}, "abba/", "abc"),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "no", "maybe"),
        ({"structured_outputs": {"grammar": 'root ::= "x" [0-9]\n'}}, "x7", "x"),
        ({"structured_outputs": {"grammar": 'start: "x" /[0-9]/'}}, "x7", "7"),
        ({"guided_json": json.dumps(SCHEMA)}, '{"a": 5}', "{}"),
    ],
)
def test_what_is_wanted_reaches_the_engine_as_a_grammar(ask: Any, fields: dict[str, Any], good: str, bad: str) -> None:
    one = stand(says(good))
    assert ask(one, **fields).status_code == 200
    assert accepted(one, good, bad, good + " x") == [True, False, False]


def test_without_a_token_for_thoughts_only_what_is_wanted_may_come() -> None:
    one = hermes('{"a": 5}')
    assert one.chat(response_format=OF_SCHEMA).json()["choices"][0]["message"]["content"] == '{"a": 5}'
    assert accepted(one, '{"a": 5}', '<think>hm</think>{"a": 5}') == [True, False]


def test_thoughts_that_the_prompt_has_begun_come_before_what_is_wanted() -> None:
    one = hermes('hm</think>\n\n{"a": 5}')
    answer = one.chat("<think>", response_format=OF_SCHEMA, **CONTINUED).json()["choices"][0]
    assert (answer["message"]["reasoning"], answer["message"]["content"]) == ("hm", '{"a": 5}')
    assert accepted(one, 'hm</think>\n\n{"a": 5}', '{"a": 5}') == [True, False]


def test_beside_tools_an_answer_is_what_is_wanted_or_a_call() -> None:
    one = hermes()
    answer = one.chat(tools=[WEATHER], response_format=OF_SCHEMA).json()["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert accepted(one, CALL, '{"a": 5}', "Hello.") == [True, True, False]


@pytest.mark.parametrize(("choice", "finish"), [("required", "tool_calls"), ("weather", "stop"), ("allowed", "stop")])
def test_a_call_that_must_come_is_all_that_can(choice: str, finish: str) -> None:
    named = {"type": "function", "function": {"name": "weather"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    fields = {"weather": named, "allowed": allowed}.get(choice, choice)
    other = {"type": "function", "function": {"name": "other"}}
    for is_stream in (False, True):
        one = hermes()
        response = one.chat(tools=[WEATHER, other], tool_choice=fields, stream=is_stream)
        ends = [
            choice["finish_reason"]
            for body in (sse(response) if is_stream else [response.json()])
            for choice in body["choices"]
        ]
        assert ends[-1] == ("tool_calls" if choice == "allowed" else finish)
        wrong = CALL.replace('{"a": 1}', '{"a": "x"}')
        calls_other = CALL.replace("weather", "other").replace('{"a": 1}', "{}")
        assert accepted(one, CALL, wrong, "Hello.", calls_other) == [True, False, False, choice == "required"]


def test_one_call_is_all_without_parallel_calls() -> None:
    one = hermes()
    one.chat(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    assert accepted(one, CALL, CALL + "\n" + CALL) == [True, False]


def test_a_strict_tool_is_bound_although_nothing_need_be_called() -> None:
    strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}  # type: ignore[dict-item]
    one = hermes()
    one.chat(tools=[strict])
    assert accepted(one, CALL, "Hello.", CALL.replace("1", '"x"')) == [True, True, False]


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"response_format": {"type": "json_object"}, "min_tokens": 3}, "min_tokens", "grammar"),
        ({"response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos", "grammar"),
        ({"guided_json": {"uniqueItems": True, "type": "array"}}, "guided_json", "uniqueItems"),
        ({"guided_regex": "(?=a)"}, "guided_regex", "look-ahead"),
        ({"guided_grammar": "start: start"}, "guided_grammar", ""),
        ({"guided_grammar": "root ::= ((("}, "guided_grammar", "does not parse"),
        ({"tools": [UNIQUE], "tool_choice": "required"}, "tools[0].function.parameters", "uniqueItems"),
    ],
)
def test_what_cannot_be_enforced_is_refused_before_any_engine_sees_it(
    fields: dict[str, Any], param: str, said: str
) -> None:
    one = hermes()
    response = one.chat(**fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert said in error["message"]
    assert one.replica.submits == []


@pytest.mark.parametrize("cut", range(len(CALL)))
def test_a_call_that_must_come_leaves_no_text_wherever_it_is_cut(cut: int) -> None:
    one = stand(says(CALL[:cut], FinishReason.LENGTH), tool_format=FORMATS["hermes"])
    message = one.chat(tools=[WEATHER], tool_choice="required").json()["choices"][0]["message"]
    assert not message["content"]


@pytest.mark.parametrize("text", ["<|end|>", "<|start|>x", "<|eos|>"])
def test_text_that_spells_a_control_token_is_written_as_text(text: str) -> None:
    one = stand(says(text))
    one.chat(structured_outputs={"choice": [text]})
    table = TokenTable(byte_tokenizer().to_json(), SPEC.vocab_size, (EOS,))
    constraint = one.replica.submits[-1].constraint
    assert constraint is not None
    mask = table.matcher(constraint.grammar).mask().view(np.uint8)
    assert np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist() == [ord("<")]


@pytest.mark.parametrize("parameters", [{"type": "integer"}, {"type": "string"}, {"type": "array"}])
def test_arguments_are_an_object(parameters: dict[str, Any]) -> None:
    response = hermes().chat(tools=[{"type": "function", "function": {"name": "f", "parameters": parameters}}])
    assert response.json()["error"]["param"] == "tools[0].function.parameters.type"


def test_a_list_of_no_allowed_tools_is_refused() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}
    assert hermes().chat(tools=[WEATHER], tool_choice=choice).status_code == 400
