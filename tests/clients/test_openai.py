"""OpenAI's own client, which refuses an answer that its types do not describe, against servers over a socket."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openai", reason="the clients have an environment of their own: make clients")

import openai
import pydantic

pytestmark = pytest.mark.filterwarnings("default")

QUESTION: Any = [{"role": "user", "content": "hi"}]


class Weather(pydantic.BaseModel):
    """The weather of some days."""

    city: str
    days: int


TOOL: Any = openai.pydantic_function_tool(Weather)
FLAT: Any = {"type": "function", **TOOL["function"]}
FORECAST = Weather(city="Köln 🌧", days=3)


@pytest.fixture
def client(written: str, key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{written}/v1", api_key=key, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_a_chat(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="tiny", messages=QUESTION)
    assert completion.choices[0].message.content == "hello there"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


def test_a_stream_of_a_chat(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="tiny", messages=QUESTION, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello there"
    assert len(chunks) > 3


def test_a_call_its_result_and_the_answer(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "call"}]
    first = client.chat.completions.create(model="tiny", messages=messages, tools=[TOOL]).choices[0].message
    assert first.tool_calls is not None
    (call,) = first.tool_calls
    assert call.type == "function"
    assert json.loads(call.function.arguments) == FORECAST.model_dump()
    messages += [first, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    second = client.chat.completions.create(model="tiny", messages=messages, tools=[TOOL])
    assert second.choices[0].message.content == "Take an umbrella."


def test_parse_gives_a_value_of_the_callers_own_type(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model="tiny", messages=QUESTION, response_format=Weather)
    assert completion.choices[0].message.parsed == FORECAST


def test_a_stream_of_a_parse_ends_with_that_value(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="tiny", messages=QUESTION, response_format=Weather) as stream:
        kinds = {event.type for event in stream}
        assert stream.get_final_completion().choices[0].message.parsed == FORECAST
    assert {"content.delta", "content.done"} <= kinds


def test_responses_plain_streamed_parsed_and_with_a_call(client: openai.OpenAI) -> None:
    assert client.responses.create(model="tiny", input="hi").output_text == "hello there"
    with client.responses.stream(model="tiny", input="hi") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text == "hello there"
    assert client.responses.parse(model="tiny", input="hi", text_format=Weather).output_parsed == FORECAST
    (call,) = client.responses.create(model="tiny", input="call", tools=[FLAT]).output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == FORECAST.model_dump()


def test_what_the_server_refuses_is_the_clients_own_error(client: openai.OpenAI, written: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="tiny", messages=QUESTION, temperature=7.0)
    assert raised.value.param == "temperature"
    assert raised.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=QUESTION)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{written}/v1", api_key="wrong", max_retries=0).models.list()


def test_the_asynchronous_client(written: str, key: str) -> None:
    async def scenario() -> tuple[str | None, str, str]:
        async with openai.AsyncOpenAI(base_url=f"{written}/v1", api_key=key, max_retries=0) as client:
            plain, stream, response = await asyncio.gather(
                client.chat.completions.create(model="tiny", messages=QUESTION),
                client.chat.completions.create(model="tiny", messages=QUESTION, stream=True),
                client.responses.create(model="tiny", input="hi"),
            )
            parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            return plain.choices[0].message.content, "".join(parts), response.output_text

    assert asyncio.run(scenario()) == ("hello there",) * 3


@pytest.mark.model
def test_the_embedded_model_answers(served: str) -> None:
    with openai.OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
        completion = client.chat.completions.create(
            model=client.models.list().data[0].id,
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            temperature=0,
            max_tokens=32,
        )
    assert "Paris" in (completion.choices[0].message.content or "")


def test_embeddings_come_as_numbers_whatever_the_client_asked_for(written: str, key: str) -> None:
    # The client asks for base64 by itself, which its own types do not describe before it has decoded it.
    with openai.OpenAI(base_url=f"{written}/v1", api_key=key, max_retries=0) as client:
        unasked = client.embeddings.create(model="tiny", input=["hi", "there"])
        as_numbers = client.embeddings.create(model="tiny", input=["hi", "there"], encoding_format="float")
    assert [one.embedding for one in unasked.data] == [one.embedding for one in as_numbers.data]
    assert [one.index for one in unasked.data] == [0, 1]
