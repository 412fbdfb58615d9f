"""Reasoning and calls in the chat view: what a stream says is what a plain answer says."""

import json
from typing import Any

import pytest

from dayzero.core.events import FinishReason
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.json_client import Document
from tests.gateway.stand import Stand, says, sse, stand
from tests.gateway.views.chat_reader import assembled

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln 🌧"}}\n</tool_call>'


def hermes(text: str, finish: FinishReason = FinishReason.STOP, *, per_event: int = 1) -> Stand:
    return stand(says(text, finish, per_event=per_event), tool_format=FORMATS["hermes"])


def message_of(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    choice = body["choices"][0]
    return choice["message"], choice["finish_reason"]


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    calls = [{**call, "id": "call"} for call in message.get("tool_calls", ())]
    assert all(call["id"].startswith("call_") for call in message.get("tool_calls", ()))
    return {**message, **({"tool_calls": calls} if calls else {})}


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        CALL,
        f"Let me see. {CALL}\n{CALL}",
        f"<think>\nhm\n</think>\n\nok {CALL} done",
        "<think>only",
        CALL[:40],
    ],
)
@pytest.mark.parametrize("per_event", [1, 3, 1000])
def test_a_stream_comes_to_what_a_plain_answer_says(text: str, per_event: int) -> None:
    fields: dict[str, Any] = {"tools": [WEATHER]}
    plain, plain_finish = message_of(hermes(text, per_event=per_event).chat(**fields).json())
    streamed, finish = assembled(sse(hermes(text, per_event=per_event).chat(stream=True, **fields)))
    assert without_ids(streamed) == without_ids(plain)
    assert finish == plain_finish


def test_a_call_has_a_name_arguments_and_no_content() -> None:
    message, finish = message_of(hermes(CALL).chat(tools=[WEATHER]).json())
    assert message["content"] is None
    assert message["tool_calls"][0]["function"]["name"] == "weather"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"city": "Köln 🌧"}
    assert finish == "tool_calls"


def test_reasoning_is_counted_and_told_under_both_of_its_names() -> None:
    body = hermes("<think>hm</think>ok").chat().json()
    message, finish = message_of(body)
    assert (message["reasoning"], message["reasoning_content"], message["content"]) == ("hm", "hm", "ok")
    assert finish == "stop"
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == len("hm</think>")


def test_reasoning_can_be_left_out() -> None:
    message, _ = message_of(hermes("<think>hm</think>ok").chat(include_reasoning=False).json())
    assert "reasoning" not in message
    events = sse(hermes("<think>hm</think>ok").chat(include_reasoning=False, stream=True))
    assert all("reasoning" not in event["choices"][0]["delta"] for event in events)


def test_no_stop_string_ends_reasoning_but_one_ends_the_answer() -> None:
    message, _ = message_of(hermes("<think>a STOP b</think>c STOP d").chat(stop="STOP").json())
    assert (message["reasoning"], message["content"]) == ("a STOP b", "c ")


def test_an_output_that_was_cut_inside_a_call_ends_with_length() -> None:
    cut = CALL[: CALL.index("Köln")]
    message, finish = message_of(hermes(cut, FinishReason.LENGTH).chat(tools=[WEATHER]).json())
    assert finish == "length"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"city": "'


def test_a_call_of_an_unknown_function_is_content_and_its_siblings_stay() -> None:
    bogus = CALL.replace("weather", "bogus")
    message, finish = message_of(hermes(f"{CALL}\n{bogus}\n{CALL}").chat(tools=[WEATHER]).json())
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["weather", "weather"]
    assert "bogus" in message["content"]
    assert finish == "tool_calls"


def test_beside_tool_choice_none_no_call_is_told_and_no_markup_leaks() -> None:
    message, finish = message_of(hermes(f"well {CALL}").chat(tools=[WEATHER], tool_choice="none").json())
    assert message["content"] == "well "
    assert "tool_calls" not in message
    assert finish == "stop"


def test_without_tools_what_looks_like_a_call_is_content() -> None:
    message, _ = message_of(hermes(CALL).chat().json())
    assert message["content"] == CALL


def test_a_model_without_a_tool_format_refuses_tools() -> None:
    error = stand().chat(tools=[WEATHER]).json()["error"]
    assert error["param"] == "tools"
    assert stand().chat(tools=[WEATHER], tool_choice="none").status_code == 200


def test_three_choices_have_parsers_of_their_own() -> None:
    """B28: choices shared a parser, and each got parts of the others."""
    body = hermes(CALL).chat(tools=[WEATHER], n=3).json()
    assert [len(choice["message"]["tool_calls"]) for choice in body["choices"]] == [1, 1, 1]
    assert len({choice["message"]["tool_calls"][0]["id"] for choice in body["choices"]}) == 3


def test_without_parallel_calls_only_the_first_is_told() -> None:
    message, _ = message_of(hermes(f"{CALL}\n{CALL}").chat(tools=[WEATHER], parallel_tool_calls=False).json())
    assert len(message["tool_calls"]) == 1
    assert message["content"] is None


@pytest.mark.parametrize("per_event", [1, 3, 1000])
def test_the_arguments_of_calls_are_told_as_documents(per_event: int) -> None:
    this = hermes(f"Let me see. {CALL}\n{CALL}{CALL[:-20]}", per_event=per_event)
    events = sse(this.chat(tools=[WEATHER], stream=True, stream_options={"partial_json": True}))
    documents: dict[int, Document] = {}
    completes: dict[int, bool] = {}
    for event in events:
        told = event["choices"][0].get("partial_json")
        if told is not None:
            documents.setdefault(told["tool_call"], Document()).apply(told["changes"])
            if "complete" in told:
                completes[told["tool_call"]] = told["complete"]
    calls = assembled(events)[0]["tool_calls"]
    assert [documents[i].value for i in range(2)] == [json.loads(call["function"]["arguments"]) for call in calls[:2]]
    assert completes == {0: True, 1: True, 2: False}


def test_a_stream_has_no_such_thing_unless_it_was_asked_for() -> None:
    assert "partial_json" not in hermes(CALL).chat(tools=[WEATHER], stream=True).text


@pytest.mark.parametrize("fields", [{}, {"tools": [WEATHER], "tool_choice": "none"}])
def test_partial_json_of_plain_text_is_refused_with_what_to_do(fields: dict[str, Any]) -> None:
    response = hermes("hi").chat(stream=True, stream_options={"partial_json": True}, **fields)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "stream_options.partial_json")
    assert "response_format" in error["message"]
