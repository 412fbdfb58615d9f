"""The compliance cases of Open Responses, and its types: what it requires is there, and is of the type it names.

Of its requests, a picture is declined: no model here sees any.
"""

import json
from typing import Any, Literal

import httpx
import msgspec
import pytest

from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import says, stand

SPEECH = "Ahoy there, matey!"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"location": "San Francisco, CA"}}\n</tool_call>'
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"}},
        "required": ["location"],
    },
}
Status = Literal["in_progress", "completed", "incomplete"]


class OutputText(msgspec.Struct, tag="output_text"):
    text: str
    annotations: list[Any]


class ReasoningText(msgspec.Struct, tag="reasoning_text"):
    text: str


class Message(msgspec.Struct, tag="message"):
    id: str
    status: Status
    role: Literal["assistant"]
    content: list[OutputText]


class FunctionCall(msgspec.Struct, tag="function_call"):
    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


class ReasoningItem(msgspec.Struct, tag="reasoning"):
    id: str
    summary: list[Any]
    content: list[ReasoningText]


Item = Message | FunctionCall | ReasoningItem


class IncompleteDetails(msgspec.Struct):
    reason: str


class Failure(msgspec.Struct):
    code: str
    message: str


class FunctionTool(msgspec.Struct, tag="function"):
    name: str
    description: str | None
    parameters: dict[str, Any] | None
    strict: bool | None


class TextField(msgspec.Struct):
    format: dict[str, Any]


class Reasoning(msgspec.Struct):
    effort: str | None
    summary: str | None


class CachedTokens(msgspec.Struct):
    cached_tokens: int


class ReasoningTokens(msgspec.Struct):
    reasoning_tokens: int


class Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: CachedTokens
    output_tokens_details: ReasoningTokens


class Response(msgspec.Struct):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: str
    incomplete_details: IncompleteDetails | None
    model: str
    previous_response_id: str | None
    instructions: str | None
    output: list[Item]
    error: Failure | None
    tools: list[FunctionTool]
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any]
    truncation: Literal["auto", "disabled"]
    parallel_tool_calls: bool
    text: TextField
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    temperature: float
    reasoning: Reasoning | None
    user: str | None
    usage: Usage | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    store: bool
    background: bool
    service_tier: str
    metadata: dict[str, str]
    safety_identifier: str | None
    prompt_cache_key: str | None


class Lifecycle(msgspec.Struct):
    sequence_number: int
    response: Response


class OfItem(msgspec.Struct):
    sequence_number: int
    output_index: int
    item: Item


class OfPart(msgspec.Struct):
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    part: OutputText | ReasoningText


class TextDelta(msgspec.Struct):
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    delta: str


class TextDone(msgspec.Struct):
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    text: str


class ArgumentsDelta(msgspec.Struct):
    sequence_number: int
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(msgspec.Struct):
    sequence_number: int
    item_id: str
    output_index: int
    arguments: str


EVENTS: dict[str, type[msgspec.Struct]] = {
    "response.created": Lifecycle,
    "response.in_progress": Lifecycle,
    "response.completed": Lifecycle,
    "response.output_item.added": OfItem,
    "response.output_item.done": OfItem,
    "response.content_part.added": OfPart,
    "response.content_part.done": OfPart,
    "response.output_text.delta": TextDelta,
    "response.output_text.done": TextDone,
    "response.function_call_arguments.delta": ArgumentsDelta,
    "response.function_call_arguments.done": ArgumentsDone,
}


def said(role: str, content: object) -> dict[str, object]:
    return {"type": "message", "role": role, "content": content}


def ask(*items: dict[str, object], answer: str = SPEECH, **fields: object) -> httpx.Response:
    this = stand(says(answer), tool_format=FORMATS["hermes"])
    return this.post("/v1/responses", {"model": "tiny", "input": items, **fields})


def checked(body: object) -> Response:
    return msgspec.convert(body, Response)


def checked_events(response: httpx.Response) -> tuple[list[str], Response]:
    """The types of a stream's events, each of which is what its type says, and the last one's response."""
    blocks = response.text.removesuffix("\n\n").split("\n\n")
    events = [json.loads(block.split("\n")[1].removeprefix("data: ")) for block in blocks]
    for event in events:
        msgspec.convert(event, EVENTS[event["type"]])
    return [event["type"] for event in events], checked(events[-1]["response"])


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([said("user", "Say hello in exactly 3 words.")], id="basic-response"),
        pytest.param(
            [said("system", "You are a pirate. Always respond in pirate speak."), said("user", "Say hello.")],
            id="system-prompt",
        ),
        pytest.param(
            [
                said("user", "My name is Alice."),
                said("assistant", "Hello Alice! Nice to meet you. How can I help you today?"),
                said("user", "What is my name?"),
            ],
            id="multi-turn",
        ),
    ],
)
def test_an_answer_is_completed_and_has_output(items: list[dict[str, object]]) -> None:
    response = checked(ask(*items).json())
    assert response.status == "completed"
    (message,) = response.output
    assert isinstance(message, Message)
    assert message.content[0].text == SPEECH


def test_streaming_response() -> None:
    types, response = checked_events(ask(said("user", "Count from 1 to 5."), stream=True))
    assert types[0] == "response.created"
    assert response.status == "completed"


def test_tool_calling() -> None:
    question = said("user", "What's the weather like in San Francisco?")
    response = checked(ask(question, answer=CALL, tools=[WEATHER]).json())
    assert [type(item) for item in response.output] == [FunctionCall]


def test_tool_calling_streaming() -> None:
    question = said("user", "What's the weather like in San Francisco?")
    types, response = checked_events(ask(question, answer=CALL, tools=[WEATHER], stream=True))
    assert {
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    } <= set(types)
    assert [type(item) for item in response.output] == [FunctionCall]


def test_image_input_is_declined_with_what_to_do() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    response = ask(said("user", [{"type": "input_text", "text": "What do you see?"}, image]))
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "input[0].content[1]")
    assert "text only" in error["message"]
