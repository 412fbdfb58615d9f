"""/v1/responses through the official client, which refuses an answer that its types do not describe."""

import asyncio
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

ANSWER = (
    "<think>one of them</think>Let me see."
    '<tool_call>\n{"name": "Weather", "arguments": {"city": "Köln 🌧", "days": 3}}\n</tool_call>'
)


class Weather(pydantic.BaseModel):
    """The weather of some days."""

    city: str
    days: int


TOOL: Any = openai.pydantic_function_tool(Weather)
FLAT: Any = {"type": "function", **TOOL["function"]}
FORECAST = Weather(city="Köln 🌧", days=3)


def script(submit: Submit) -> list[TokenEvent]:
    """What a bound output must be, else reasoning, text and a call; cut if only a few tokens are wanted."""
    data = (ANSWER if submit.constraint is None or "<tool_call>" in str(submit.constraint) else "").encode()
    data = data or FORECAST.model_dump_json().encode()
    if submit.params.max_tokens < len(data):
        return says(data[: submit.params.max_tokens], FinishReason.LENGTH, per_event=7)(submit)
    return says(data, per_event=7)(submit)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    here = stand(script, tool_format=FORMATS["hermes"], store_responses=True)
    with run_live(here) as (host, port):
        yield f"http://{host}:{port}/v1"


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="-", max_retries=0, _strict_response_validation=True) as client:
        yield client


def test_a_response_has_reasoning_text_and_a_call(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="hi", tools=[FLAT])
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.output_text == "Let me see."
    call = response.output[2]
    assert call.type == "function_call"
    assert json.loads(call.arguments) == FORECAST.model_dump()


def test_every_event_of_a_stream_is_one_of_the_clients_types(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="tiny", input="hi", tools=[FLAT], stream=True))
    assert {event.type for event in events} == {
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    }
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_clients_own_reader_of_streams_comes_to_the_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model="tiny", input="hi", tools=[FLAT]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert client.responses.retrieve(final.id).output_text == final.output_text == "Let me see."


def test_an_answer_that_was_cut_is_told_by_its_event(client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="tiny", input="hi", tools=[FLAT], stream=True, max_output_tokens=60))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details is not None
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"


def test_parse_gives_a_value_of_the_callers_own_type(client: openai.OpenAI) -> None:
    response = client.responses.parse(model="tiny", input="hi", text_format=Weather)
    assert response.output_parsed == FORECAST


def test_a_conversation_goes_on_and_is_listed_and_forgotten(client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="one", tools=[FLAT])
    output: Any = {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "rain"}  # type: ignore[union-attr]
    second = client.responses.create(model="tiny", input=[output], previous_response_id=first.id)
    listed = list(client.responses.input_items.list(second.id, order="asc", limit=2))
    kinds = ["message", "reasoning", "message", "function_call", "function_call_output"]
    assert [item.type for item in listed] == kinds
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(first.id)


def test_output_goes_back_in_as_the_clients_types_write_it(client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="one", tools=[FLAT], store=False)
    again: Any = [{"role": "user", "content": "one"}, *first.output, {"role": "user", "content": "two"}]
    assert client.responses.create(model="tiny", input=again, store=False).status == "completed"


def test_the_async_client_streams(url: str) -> None:
    async def main() -> str:
        async with (
            openai.AsyncOpenAI(base_url=url, api_key="-", max_retries=0, _strict_response_validation=True) as client,
            client.responses.stream(model="tiny", input="hi") as stream,
        ):
            return (await stream.get_final_response()).output_text

    assert asyncio.run(main()).startswith("Let me see.")
