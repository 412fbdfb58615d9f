"""LiteLLM, by all APIs that it can speak to a server of its user's own."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("litellm", reason="the clients have an environment of their own: make clients")

import litellm
import pydantic

pytestmark = pytest.mark.filterwarnings("default")

TOOL = {
    "type": "function",
    "function": {
        "name": "Weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


class Weather(pydantic.BaseModel):
    """The weather of some days."""

    city: str
    days: int


FORECAST = Weather(city="Köln 🌧", days=3)


def fields(written: str, key: str, content: str = "hi", provider: str = "openai") -> dict[str, Any]:
    return {
        "model": f"{provider}/tiny",
        "api_base": f"{written}/v1" if provider == "openai" else written,
        "api_key": key,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 300,
        "num_retries": 0,
    }


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_chat(written: str, key: str, provider: str) -> None:
    answer = litellm.completion(**fields(written, key, provider=provider))
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 0


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_stream_of_a_chat(written: str, key: str, provider: str) -> None:
    chunks = list(litellm.completion(**fields(written, key, provider=provider), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello there"
    assert len(chunks) > 3


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_call_its_result_and_the_answer(written: str, key: str, provider: str, stream: bool) -> None:
    asked = fields(written, key, "call", provider)
    first = litellm.completion(**asked, tools=[TOOL], stream=stream)
    if stream:
        first = litellm.stream_chunk_builder(list(first), messages=asked["messages"])
    message = first.choices[0].message
    (call,) = message.tool_calls
    assert json.loads(call.function.arguments) == FORECAST.model_dump()
    asked["messages"] += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    second = litellm.completion(**asked, tools=[TOOL])
    assert second.choices[0].message.content == "Take an umbrella."


def test_structured_output(written: str, key: str) -> None:
    answer = litellm.completion(**fields(written, key), response_format=Weather)
    assert Weather.model_validate_json(answer.choices[0].message.content) == FORECAST


def test_responses(written: str, key: str) -> None:
    answer = litellm.responses(model="openai/tiny", api_base=f"{written}/v1", api_key=key, input="hi")
    assert answer.output[-1].content[0].text == "hello there"


def test_embeddings_are_those_of_the_texts(
    written: str, key: str, embed: Callable[[list[str]], list[list[float]]]
) -> None:
    texts = ["hi", "Köln 🌧"]
    answer = litellm.embedding(model="openai/tiny", api_base=f"{written}/v1", api_key=key, input=texts)
    assert [one["embedding"] for one in answer.data] == embed(texts)
    assert answer.usage.prompt_tokens == len("".join(texts).encode())


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_what_the_server_refuses_is_the_clients_own_error(written: str, key: str, provider: str) -> None:
    with pytest.raises(litellm.BadRequestError, match="temperature out of range"):
        litellm.completion(**fields(written, key, provider=provider), temperature=7.0)
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(**fields(written, "wrong", provider=provider))


def test_the_asynchronous_client(written: str, key: str) -> None:
    answer = asyncio.run(litellm.acompletion(**fields(written, key)))
    assert answer.choices[0].message.content == "hello there"


@pytest.mark.model
def test_the_embedded_model_answers(served: str) -> None:
    asked = fields(served, "none", "What is the capital of France?")
    asked.update(model="openai/SmolLM2-135M-Instruct.Q4_1", temperature=0, max_tokens=32)
    assert "Paris" in litellm.completion(**asked).choices[0].message.content
