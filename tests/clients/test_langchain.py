"""LangChain's ChatOpenAI, over chat completions and over responses, and its OpenAIEmbeddings."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_openai", reason="the clients have an environment of their own: make clients")

import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

pytestmark = pytest.mark.filterwarnings("default")


class Weather(pydantic.BaseModel):
    """The weather of some days."""

    city: str
    days: int


FORECAST = Weather(city="Köln 🌧", days=3)


@pytest.fixture(params=[False, True], ids=["chat", "responses"])
def model(written: str, key: str, request: pytest.FixtureRequest) -> ChatOpenAI:
    return model_of(written, key, use_responses_api=request.param)


def model_of(address: str, key: str, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(**{"model": "tiny", **fields}, base_url=f"{address}/v1", api_key=key, max_retries=0)


def test_a_chat(model: ChatOpenAI) -> None:
    answer = model.invoke("hi")
    assert answer.text == "hello there"
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0


def test_a_stream_of_a_chat(model: ChatOpenAI) -> None:
    chunks = list(model.stream("hi"))
    assert "".join(chunk.text for chunk in chunks) == "hello there"
    assert len(chunks) > 3


@pytest.mark.parametrize("streaming", [False, True])
def test_a_call_its_result_and_the_answer(model: ChatOpenAI, streaming: bool) -> None:
    bound = model.model_copy(update={"streaming": streaming}).bind_tools([Weather])
    first = bound.invoke([HumanMessage("call")])
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("Weather", FORECAST.model_dump())
    second = bound.invoke([HumanMessage("call"), first, ToolMessage("rain", tool_call_id=call["id"])])
    assert second.text == "Take an umbrella."


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(model: ChatOpenAI, method: Any) -> None:
    assert model.with_structured_output(Weather, method=method).invoke("hi") == FORECAST


def test_what_the_server_refuses_is_the_error_of_openais_client(model: ChatOpenAI, written: str) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature out of range"):
        model.model_copy(update={"temperature": 7.0}).invoke("hi")
    with pytest.raises(openai.AuthenticationError):
        model_of(written, "wrong").invoke("hi")


def test_the_asynchronous_model(model: ChatOpenAI) -> None:
    async def scenario() -> str:
        return "".join([chunk.text async for chunk in model.astream("hi")])

    assert asyncio.run(scenario()) == "hello there"


def test_embeddings_are_those_of_the_texts(
    written: str, key: str, embed: Callable[[list[str]], list[list[float]]]
) -> None:
    texts = ["hi", "Köln 🌧"]
    model = OpenAIEmbeddings(model="tiny", base_url=f"{written}/v1", api_key=key, check_embedding_ctx_length=False)
    assert model.embed_documents(texts) == [model.embed_query(text) for text in texts] == embed(texts)


@pytest.mark.model
def test_the_embedded_model_answers(served: str) -> None:
    model = model_of(served, "none", model="SmolLM2-135M-Instruct.Q4_1", temperature=0, max_completion_tokens=32)
    assert "Paris" in model.invoke("What is the capital of France?").text
