"""What a client is told of a wrong field is in the words of the API that it speaks."""

import re
from typing import Any

import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, says, stand

UNIQUE = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
CIRCLE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}
GOOD = {"type": "object", "properties": {"a": {"type": "integer"}}}


def hermes(script: Any = None) -> Stand:
    return stand(script or says("ok"), tool_format=FORMATS["hermes"])


def chat_tool(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}


def chat(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], **fields}


def responses(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/responses", {"input": "hi", **fields}


def messages(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **fields}


def of_responses(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": schema, "strict": True}


def of_messages(name: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": schema, "strict": True}


def fault(asked: tuple[str, dict[str, Any]], this: Stand | None = None) -> tuple[str, str]:
    """The field, and the rest of what is said."""
    path, body = asked
    response = (this or hermes()).post(path, body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    if "param" in error:
        return error["param"], error["message"]
    place, _, message = error["message"].partition(": ")
    return place, message


@pytest.mark.parametrize("bad", [UNIQUE, CIRCLE], ids=["uniqueItems", "a reference to nothing"])
@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (lambda bad: chat(tools=[chat_tool("f", GOOD), chat_tool("g", bad)]), "tools[1].function.parameters"),
        (lambda bad: responses(tools=[of_responses("f", GOOD), of_responses("g", bad)]), "tools[1].parameters"),
        (lambda bad: messages(tools=[of_messages("f", GOOD), of_messages("g", bad)]), "tools[1].input_schema"),
    ],
    ids=["chat", "responses", "messages"],
)
def test_a_tool_that_cannot_be_bound_is_named_by_its_place(asked: Any, param: str, bad: Any) -> None:
    assert fault(asked(bad))[0] == param


def test_the_place_is_that_in_the_request_also_where_one_tool_is_chosen() -> None:
    choice = {"type": "function", "function": {"name": "g"}}
    tools = [chat_tool("f", GOOD), chat_tool("g", UNIQUE)]
    assert fault(chat(tools=tools, tool_choice=choice))[0] == "tools[1].function.parameters"
    beside = chat(tools=tools, response_format={"type": "json_object"})
    assert fault(beside)[0] == "tools[1].function.parameters"


FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": GOOD}}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (chat(response_format=FORMAT), "response_format.json_schema.schema"),
        (chat(tools=[chat_tool("f", GOOD)], tool_choice="required"), "tools[0].function.parameters"),
        (chat(tools=[chat_tool("f", GOOD), chat_tool("g", GOOD)], tool_choice="required"), "tools"),
        (("/v1/completions", {"prompt": "hi", "guided_regex": "a"}), "guided_regex"),
        (responses(text={"format": {"type": "json_schema", "name": "x", "schema": GOOD}}), "text.format.schema"),
        (messages(output_config={"format": {"type": "json_schema", "schema": GOOD}}), "output_config.format.schema"),
    ],
)
def test_what_the_engine_finds_is_named_too(asked: tuple[str, dict[str, Any]], param: str) -> None:
    def script(submit: Submit) -> list[TokenEvent]:
        return [TokenEvent(submit.request_id, [], finish=FinishReason.GRAMMAR, error="needs more work than it may")]

    assert fault(asked, hermes(script)) == (param, "needs more work than it may")


def named(**fields: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"schema": GOOD, **fields}}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (chat(response_format=named(name=5)), "response_format.json_schema.name"),
        (chat(response_format=named(strict="x")), "response_format.json_schema.strict"),
        (chat(response_format={"type": 5}), "response_format.type"),
        (chat(tool_choice={"type": "function", "function": {"name": 5}}), "tool_choice.function.name"),
        (chat(stream_options={"include_usage": 1}, stream=True), "stream_options.include_usage"),
        (("/v1/completions", {"prompt": "hi", "response_format": named(name=[])}), "response_format.json_schema.name"),
        (responses(text={"format": {"type": "json_schema", "name": 5, "schema": GOOD}}), "text.format.name"),
        (responses(text={"format": {"type": "json_schema", "strict": "x", "schema": GOOD}}), "text.format.strict"),
        (responses(tools=[{**of_responses("f", GOOD), "description": 5}]), "tools[0].description"),
        (responses(reasoning={"effort": 5}), "reasoning.effort"),
        (messages(tools=[{**of_messages("f", GOOD), "strict": "x"}]), "tools[0].strict"),
        (messages(thinking={"type": "enabled", "display": 5}), "thinking.display"),
        (messages(tool_choice={"type": "auto", "name": 5}), "tool_choice.name"),
        (messages(tool_choice={"disable_parallel_tool_use": "x"}), "tool_choice.disable_parallel_tool_use"),
        (messages(output_config={"format": {"type": "json_schema", "schema": 5}}), "output_config.format.schema"),
    ],
)
def test_types_within_fields_are_checked(asked: tuple[str, dict[str, Any]], param: str) -> None:
    assert fault(asked)[0] == param


WORDS_OF_CHAT = r"response_format|json_schema\": {|(?<!_)max_tokens|function\.|chat_template_kwargs|`messages`|logprobs"


@pytest.mark.parametrize(
    "asked",
    [
        responses(max_output_tokens=-1),
        responses(max_output_tokens=10**6),
        responses(input="x" * 600),
        responses(input="x" * 10**5),
        responses(text={"format": {"type": "json_schema", "name": "x"}}),
        responses(text={"format": {"type": "yaml"}}),
        responses(tools=[{"type": "function"}]),
        responses(tools=[{"type": "custom", "name": "x"}]),
        responses(tools=[of_responses("f", GOOD)], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": []}),
        responses(tools=[of_responses("f", GOOD)], tool_choice={"type": "allowed_tools", "tools": [{}]}),
        responses(tools=[of_responses("f", GOOD)] * 2),
        responses(tools=[of_responses("f", {"type": "array"})]),
        responses(reasoning={"effort": "a\nb"}),
    ],
)
def test_responses_speak_of_no_field_of_chat(asked: tuple[str, dict[str, Any]]) -> None:
    param, message = fault(asked)
    assert not re.search(WORDS_OF_CHAT, f"{param} {message}"), (param, message)


@pytest.mark.parametrize(
    "asked",
    [
        messages(max_tokens=0),
        messages(system="x" * 600),
        messages(output_config={"format": {"type": "json_schema"}}),
        messages(output_config={"effort": "a\nb"}),
        messages(tools=[{"name": "f"}]),
        messages(tools=[of_messages("f", {"type": "array"})]),
        messages(tools=[of_messages("f", GOOD)] * 2),
        messages(tools=[of_messages("f", GOOD)], tool_choice={"type": "tool", "name": "g"}),
        messages(tool_choice={"type": "any"}),
        messages(stop_sequences=["x"] * 99),
    ],
)
def test_messages_speak_of_no_field_of_chat(asked: tuple[str, dict[str, Any]]) -> None:
    param, message = fault(asked)
    theirs = WORDS_OF_CHAT.replace(r"|(?<!_)max_tokens", "") + "|required"
    assert not re.search(theirs, f"{param} {message}"), (param, message)
