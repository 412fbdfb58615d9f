"""Anthropic's Messages: what a stream says is what a plain answer says, and both are what chat completions say."""

from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Submit
from tests.gateway.stand import SPEC, Stand, byte_tokenizer, says, stand
from tests.gateway.views.messages_reader import assembled, events_of, parsed, without_ids

WEATHER = {
    "name": "weather",
    "description": "The weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln 🌧", "n": 1.50}}\n</tool_call>'
OUTPUTS = [
    "plain",
    "",
    " \n",
    " begins and ends with a blank ",
    CALL,
    f"Let me see. {CALL}\n{CALL}",
    f"<think>\nhm\n</think>\n\nok {CALL} done",
    "<think>only",
    "<think>\n\n</think>\n\nnothing thought",
    CALL[:50],
    CALL.replace("weather", "bogus"),
]


def hermes(text: str, finish: FinishReason = FinishReason.STOP, *, per_event: int = 1, **config: Any) -> Stand:
    return stand(says(text, finish, per_event=per_event), tool_format=FORMATS["hermes"], **config)


def body_of(content: object = "hi", **fields: Any) -> dict[str, Any]:
    return {"max_tokens": 300, "messages": [{"role": "user", "content": content}], **fields}


RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "x"}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def ask(this: Stand, content: object = "hi", **fields: Any) -> httpx.Response:
    return this.post("/v1/messages", body_of(content, **fields))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    text=st.sampled_from(OUTPUTS) | st.lists(st.sampled_from(OUTPUTS)).map("".join),
    per_event=st.integers(1, 40),
    finish=st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]),
    thinking=st.sampled_from([None, {"type": "adaptive", "display": "omitted"}, {"type": "disabled"}]),
)
def test_a_stream_comes_to_what_a_plain_answer_says(
    text: str, per_event: int, finish: FinishReason, thinking: object
) -> None:
    fields = {"tools": [WEATHER], "stop_sequences": ["done"], "thinking": thinking}
    plain = ask(hermes(text, finish, per_event=1000), **fields).json()
    streamed = assembled(events_of(ask(hermes(text, finish, per_event=per_event), stream=True, **fields)))
    assert without_ids(streamed) == without_ids(plain)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    text=st.lists(st.sampled_from(OUTPUTS)).map("".join),
    finish=st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]),
)
def test_it_says_what_chat_completions_say_of_the_same_output(text: str, finish: FinishReason) -> None:
    tool = {"name": "weather", "parameters": WEATHER["input_schema"]}
    this = hermes(text, finish)
    chat = this.chat(tools=[{"type": "function", "function": tool}], max_tokens=300).json()
    message = ask(this, tools=[WEATHER]).json()
    said, usage = chat["choices"][0]["message"], chat["usage"]
    blocks = message["content"]
    assert this.replica.submits[0].prompt == this.replica.submits[1].prompt
    for kind, name in (("text", "content"), ("thinking", "reasoning")):
        told = "".join(block[kind] for block in blocks if block["type"] == kind)
        assert squeezed(told) == squeezed(said.get(name) or "")
    calls = [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    chats = [call["function"] for call in said.get("tool_calls", ())]
    assert calls == [(call["name"], parsed(call["arguments"])) for call in chats]
    reasons = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
    assert message["stop_reason"] == reasons[chat["choices"][0]["finish_reason"]]
    counted = message["usage"]
    assert counted["output_tokens"] == usage["completion_tokens"]
    assert counted["input_tokens"] + counted["cache_read_input_tokens"] == usage["prompt_tokens"]
    assert counted["cache_read_input_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
    thought = usage["completion_tokens_details"]["reasoning_tokens"]
    assert counted["output_tokens_details"]["thinking_tokens"] == thought


def squeezed(text: str) -> str:
    """Without white space: between calls it is no block of text."""
    return "".join(text.split())


def test_a_plain_answer_has_the_shape_of_a_message() -> None:
    response = ask(stand(says("hello")))
    message = response.json()
    assert without_ids(message) == {
        "id": "",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [{"type": "text", "text": "hello", "id": ""}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(stand_prompt("hi")) - 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 6,
            "output_tokens_details": {"thinking_tokens": 0},
        },
    }
    assert response.headers["request-id"] == response.headers["x-request-id"]


def stand_prompt(content: str) -> list[int]:
    this = stand()
    this.chat(content)
    return this.replica.submits[0].prompt


def test_the_first_event_tells_what_of_the_prompt_was_cached() -> None:
    start = events_of(ask(stand(), stream=True))[0]
    assert start["message"]["usage"]["cache_read_input_tokens"] == 3
    assert start["message"]["usage"]["output_tokens"] == 0


def test_thinking_is_a_block_with_a_signature_that_comes_last() -> None:
    events = events_of(ask(hermes("<think>hm</think>ok"), stream=True))
    of_thinking = [event for event in events if event.get("index") == 0]
    assert of_thinking[0]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [event["delta"]["type"] for event in of_thinking[1:-1]] == ["thinking_delta"] * 2 + ["signature_delta"]
    thought, text = assembled(events)["content"]
    assert (thought["thinking"], text["text"]) == ("hm", "ok")
    assert thought["signature"]


def test_thinking_can_be_omitted_but_for_that_it_was() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}
    response = ask(hermes("<think>hm</think>ok"), thinking=thinking)
    thought, text = response.json()["content"]
    assert (thought["thinking"], text["text"]) == ("", "ok")
    assert response.headers["x-ignored-fields"] == "thinking.budget_tokens"


def test_disabled_thinking_is_left_out() -> None:
    assert [b["type"] for b in ask(hermes("<think>hm</think>ok"), thinking={"type": "disabled"}).json()["content"]] == [
        "text"
    ]


def test_a_budget_of_thinking_is_an_error_in_strict_mode() -> None:
    response = ask(stand(strict=True), thinking={"type": "enabled", "budget_tokens": 1024})
    assert response.status_code == 400
    assert "thinking.budget_tokens" in response.json()["error"]["message"]


def test_a_call_keeps_its_numbers_as_the_model_wrote_them() -> None:
    response = ask(hermes(CALL), tools=[WEATHER])
    assert '"n": 1.50' in response.text
    (call,) = response.json()["content"]
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "weather", {"city": "Köln 🌧", "n": 1.5})
    assert response.json()["stop_reason"] == "tool_use"


def test_a_call_that_was_cut_has_no_input_and_is_no_reason() -> None:
    message = ask(hermes(CALL[:60], FinishReason.LENGTH), tools=[WEATHER]).json()
    assert message["content"][0]["input"] == {}
    assert message["stop_reason"] == "max_tokens"


def test_a_stop_sequence_is_named() -> None:
    message = ask(stand(says("one STOP two")), stop_sequences=["x", "STOP"]).json()
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "STOP")
    assert message["content"][0]["text"] == "one "


def test_more_tokens_than_fit_are_cut_to_the_context_and_an_answer_that_fills_it_says_so() -> None:
    this = stand(says("hello", FinishReason.LENGTH))
    message = ask(this, max_tokens=32000).json()
    submit = this.replica.submits[0]
    assert submit.params.max_tokens == SPEC.max_context - len(submit.prompt)
    assert message["stop_reason"] == "model_context_window_exceeded"


def test_a_prompt_that_leaves_no_room_is_a_400_with_both_numbers() -> None:
    error = ask(stand(), "x" * 600).json()["error"]
    assert error["type"] == "invalid_request_error"
    assert "(limit: 512)" in error["message"]


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_there_is_a_token_at_least(max_tokens: int) -> None:
    assert ask(stand(), max_tokens=max_tokens).status_code == 400


def test_max_tokens_is_required() -> None:
    body = body_of()
    del body["max_tokens"]
    response = stand().post("/v1/messages", body)
    assert response.status_code == 400
    assert "max_tokens" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        (None, 2),
        ({"type": "auto"}, 2),
        ({"type": "auto", "disable_parallel_tool_use": True}, 1),
        ({"type": "any"}, 2),
        ({"type": "any", "disable_parallel_tool_use": True}, 1),
        ({"type": "none"}, 0),
    ],
)
def test_the_choice_of_tools_and_how_many_are_that_of_chat(choice: object, calls: int) -> None:
    message = ask(hermes(f"{CALL}\n{CALL}"), tools=[WEATHER], tool_choice=choice).json()
    assert [block["type"] for block in message["content"]].count("tool_use") == calls


def test_a_tool_that_must_be_called_binds_the_output_and_ends_with_tool_use() -> None:
    this = hermes(CALL)
    message = ask(this, tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"}).json()
    constraint = this.replica.submits[0].constraint
    assert constraint is not None
    assert constraint.grammar
    assert message["stop_reason"] == "tool_use"


def test_a_schema_of_the_answer_binds_it_under_either_name() -> None:
    form = {"type": "json_schema", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    chat = stand(says("{}"))
    chat.chat(response_format={"type": "json_schema", "json_schema": {"schema": form["schema"]}})
    for fields in ({"output_config": {"format": form}}, {"output_format": form}):
        this = stand(says("{}"))
        assert ask(this, **fields).status_code == 200
        assert this.replica.submits[0].constraint == chat.replica.submits[0].constraint
    both = ask(stand(), output_config={"format": form}, output_format=form)
    assert both.status_code == 400


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "other"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "sometimes"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "often"}}, "thinking.type"),
        ({"thinking": {}}, "thinking.type"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}}, "output_config.format.schema"),
        ({"output_config": {"effort": 5}}, "output_config.effort"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{"url": "http://x"}]}, "mcp_servers"),
        ({"temperature": 3.0}, "temperature"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
    ],
)
def test_what_is_wrong_is_named_as_the_client_knows_it(fields: dict[str, Any], place: str) -> None:
    response = ask(hermes("ok"), **fields)
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith(f"{place}: "), error["message"]


def test_sampling_seed_and_guard_are_those_of_chat() -> None:
    given: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "seed": 3, "max_tokens": 9}
    messages, chat = stand(), stand()
    assert ask(messages, **given, collapse_guard="stop").headers["x-seed"] == "3"
    chat.chat(**given)
    assert messages.replica.submits[0].params == chat.replica.submits[0].params


def test_what_says_nothing_of_the_answer_is_accepted_and_unknown_fields_are_told() -> None:
    fields = {"metadata": {"user_id": "u"}, "service_tier": "auto", "cache_control": {"type": "ephemeral"}}
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "anything-2026-01-01"}
    response = stand().post("/v1/messages?beta=true", body_of(**fields, colour="red"), headers=headers)
    assert response.status_code == 200
    assert response.headers["x-ignored-fields"] == "metadata, service_tier, colour"


def test_what_a_coding_agent_sends_is_taken() -> None:
    """The fields that such clients send with every request, in the places where they send them."""
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **WEATHER["input_schema"]}
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "weather",
        "input": {"city": "Köln"},
        "caller": {"type": "direct"},
    }
    body = {
        "model": "tiny",
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": "You are an agent.", **mark},
            {"type": "text", "text": "Be brief.", **mark},
        ],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "(a reminder)"}, {"type": "text", "text": "hi", **mark}],
            },
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain", **mark}]},
        ],
        "tools": [{**WEATHER, "input_schema": schema, "type": "custom", "eager_input_streaming": True}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 31999},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "u"},
        "temperature": 1,
    }
    response = hermes(f"<think>so</think>It rains.{CALL}").post("/v1/messages?beta=true", body)
    message = assembled(events_of(response))
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
    in_messages = "messages[1].content[0].signature, messages[1].content[1].caller"
    others = "tools[0].eager_input_streaming, thinking.budget_tokens, context_management, metadata"
    assert response.headers["x-ignored-fields"] == f"{in_messages}, {others}"
    for name in ("thinking", "context_management"):
        del body[name]
    assert hermes("ok", strict=True).post("/v1/messages?beta=true", body).status_code == 200


def test_cache_control_may_stand_anywhere_and_changes_nothing() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    plain, marked = hermes("ok"), hermes("ok")
    for this, more in ((plain, {}), (marked, mark)):
        text = {"type": "text", "text": "hi", **more}
        assert ask(this, [text], system=[{**text}], tools=[{**WEATHER, **more}]).status_code == 200
    assert plain.replica.submits[0].prompt == marked.replica.submits[0].prompt


def test_a_last_message_of_the_assistant_is_continued() -> None:
    this = stand(says("B)"))
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "The answer is ("}]
    assert this.post("/v1/messages", {"max_tokens": 9, "messages": messages}).json()["content"][0]["text"] == "B)"
    assert byte_tokenizer().decode(this.replica.submits[0].prompt).endswith("The answer is (")


def test_what_is_counted_is_what_is_used() -> None:
    fields = {"system": "Be brief.", "tools": [WEATHER], "thinking": {"type": "adaptive"}}
    this = hermes("ok")
    body = body_of("a longer question", **fields)
    usage = this.post("/v1/messages", body).json()["usage"]
    del body["max_tokens"]
    counted = this.post("/v1/messages/count_tokens", body).json()
    assert counted == {"input_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"]}
    assert len(this.replica.submits) == 1


def test_a_failure_after_the_first_event_is_an_event_of_its_own_and_the_last_one() -> None:
    def script(submit: Submit) -> list[TokenEvent]:
        failed = TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="secret internals")
        return [*says("hel", None)(submit), failed]

    response = ask(stand(script), stream=True)
    error = events_of(response)[-1]
    assert (error["type"], error["error"]["type"]) == ("error", "api_error")
    assert error["request_id"] == response.headers["request-id"]
    assert "secret" not in response.text


def test_an_output_that_repeated_itself_says_so_beside_its_reason() -> None:
    text = "All work and no play makes a dull day. " * 12
    message = ask(stand(says(text, per_event=7)), max_tokens=480, collapse_guard="stop").json()
    assert message["stop_reason"] == "max_tokens"
    assert message["x_collapse"]["tier"]


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("messages[0].colour", {"messages": [{"role": "user", "content": "hi", "colour": 1}]}),
        ("messages[0].content[0].colour", {"messages": [said({"type": "text", "text": "hi", "colour": 1})]}),
        ("messages[0].content[0].text", {"messages": [said({**RESULT, "text": "x"})]}),
        (
            "messages[0].content[0].content[0].colour",
            {"messages": [said({**RESULT, "content": [{"type": "text", "text": "x", "colour": 1}]})]},
        ),
        ("system[0].colour", {"system": [{"type": "text", "text": "x", "colour": 1}]}),
    ],
)
def test_an_unknown_field_of_a_message_or_block_is_named_by_its_place(place: str, fields: dict[str, Any]) -> None:
    response = stand().post("/v1/messages", body_of(**fields))
    assert (response.status_code, response.headers["x-ignored-fields"]) == (200, place)
    refused = stand(strict=True).post("/v1/messages", body_of(**fields))
    assert refused.status_code == 400
    assert f"unknown field: {place}" in refused.json()["error"]["message"]


def test_a_block_of_an_unknown_type_is_refused_by_its_type_in_strict_mode_too() -> None:
    for type_ in ("image", None, ["text"]):
        response = ask(stand(strict=True), [{"type": type_, "source": {}}])
        if type_ is not None:
            assert "messages[0].content[0].type" in response.json()["error"]["message"]
        assert response.status_code == 400


def test_whether_a_result_is_an_error_is_true_or_false() -> None:
    response = ask(stand(), [{**RESULT, "is_error": "no"}])
    assert (response.status_code, "messages[0].content[0].is_error" in response.text) == (400, True)
