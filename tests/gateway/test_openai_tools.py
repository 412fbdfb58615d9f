"""Calls through the official client, which refuses an answer that its types do not describe."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Submit
from tests.gateway.stand import run_live, says, stand

MESSAGES: Any = [{"role": "user", "content": "hi"}]
CALLS = (
    "<think>two of them</think>Let me see."
    '<tool_call>\n{"name": "Weather", "arguments": {"city": "Köln 🌧", "days": 3}}\n</tool_call>\n'
    '<tool_call>\n{"name": "Weather", "arguments": {"city": "a \\"b\\" </tool", "days": 0}}\n</tool_call>'
)


class Weather(pydantic.BaseModel):
    """The weather of some days."""

    city: str
    days: int


TOOL = openai.pydantic_function_tool(Weather)


def script(submit: Submit) -> list[TokenEvent]:
    """Two calls; cut in the middle of the first if only a few tokens are wanted."""
    data = CALLS.encode()
    if submit.params.max_tokens < len(data):
        return says(data[: submit.params.max_tokens], FinishReason.LENGTH, per_event=7)(submit)
    return says(data, per_event=7)(submit)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_live(stand(script, tool_format=FORMATS["hermes"])) as (host, port):
        yield f"http://{host}:{port}/v1"


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="-", max_retries=0, _strict_response_validation=True) as client:
        yield client


def arguments(calls: Any) -> list[dict[str, Any]]:
    return [json.loads(call.function.arguments) for call in calls]


WANTED = [{"city": "Köln 🌧", "days": 3}, {"city": 'a "b" </tool', "days": 0}]


def test_calls_of_a_plain_answer(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(model="tiny", messages=MESSAGES, tools=[TOOL], max_tokens=400).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    assert choice.message.tool_calls is not None
    assert arguments(choice.message.tool_calls) == WANTED
    assert len({call.id for call in choice.message.tool_calls}) == 2


def test_calls_of_a_stream_chunk_by_chunk(client: openai.OpenAI) -> None:
    """B42: in a stream a call had no id."""
    stream = client.chat.completions.create(model="tiny", messages=MESSAGES, tools=[TOOL], max_tokens=400, stream=True)
    names: dict[int, str] = {}
    parts: dict[int, list[str]] = {}
    finish = None
    for chunk in stream:
        finish = chunk.choices[0].finish_reason or finish
        for call in chunk.choices[0].delta.tool_calls or ():
            assert call.function is not None
            if call.function.name:
                assert call.id
                names[call.index] = call.function.name
            parts.setdefault(call.index, []).append(call.function.arguments or "")
    assert names == {0: "Weather", 1: "Weather"}
    assert [json.loads("".join(parts[index])) for index in (0, 1)] == WANTED
    assert len(parts[0]) > 3  # as they are written, not at the end
    assert finish == "tool_calls"


def test_the_clients_own_accumulator_and_parser_of_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="tiny", messages=MESSAGES, tools=[TOOL], max_tokens=400) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [event.parsed_arguments for event in done] == [Weather(**wanted) for wanted in WANTED]
    assert final.choices[0].message.tool_calls is not None
    assert arguments(final.choices[0].message.tool_calls) == WANTED


def test_parse_gives_the_clients_own_classes(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model="tiny", messages=MESSAGES, tools=[TOOL], max_tokens=400)
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    assert [call.function.parsed_arguments for call in calls] == [Weather(**wanted) for wanted in WANTED]


def test_a_cut_answer_is_the_clients_error_of_length(client: openai.OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="tiny", messages=MESSAGES, tools=[TOOL], max_tokens=60)


def test_a_conversation_goes_on_with_what_the_client_was_given(client: openai.OpenAI) -> None:
    message = (
        client.chat.completions.create(model="tiny", messages=MESSAGES, tools=[TOOL], max_tokens=350).choices[0].message
    )
    assert message.tool_calls is not None
    results: Any = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]
    again = client.chat.completions.create(
        model="tiny", messages=[*MESSAGES, message.to_dict(), *results], tools=[TOOL], max_tokens=300
    )
    assert again.choices[0].finish_reason in ("tool_calls", "length")
