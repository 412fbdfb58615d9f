"""Instructor, which takes values of the caller's types out of calls and documents, and asks again for a wrong one."""

import asyncio
from typing import Annotated, Any

import pytest

pytest.importorskip("instructor", reason="the clients have an environment of their own: make clients")

import anthropic
import instructor
import openai
import pydantic
from instructor import Mode
from instructor.core import InstructorRetryException

pytestmark = pytest.mark.filterwarnings("default")


class Weather(pydantic.BaseModel):
    """The weather of some days."""

    city: str
    days: Annotated[int, pydantic.Field(ge=0)]


FORECAST = {"city": "Köln 🌧", "days": 3}


def ask(client: Any, content: str = "hi", **fields: Any) -> Any:
    return client.chat.completions.create(
        **{"model": "tiny", "response_model": Weather, "max_retries": 1, **fields},
        messages=[{"role": "user", "content": content}],
    )


def client_of(written: str, key: str, mode: Mode = Mode.TOOLS) -> Any:
    return instructor.from_openai(openai.OpenAI(base_url=f"{written}/v1", api_key=key, max_retries=0), mode=mode)


@pytest.mark.parametrize("mode", [Mode.TOOLS, Mode.TOOLS_STRICT, Mode.JSON, Mode.JSON_SCHEMA], ids=str)
def test_every_mode_gives_a_value(written: str, key: str, mode: Mode) -> None:
    assert ask(client_of(written, key, mode)).model_dump() == FORECAST


@pytest.mark.parametrize("mode", [Mode.TOOLS, Mode.JSON_SCHEMA], ids=str)
def test_a_wrong_value_is_asked_for_again(written: str, key: str, mode: Mode) -> None:
    client = client_of(written, key, mode)
    assert ask(client, "wrong", max_retries=2).model_dump() == FORECAST
    with pytest.raises(InstructorRetryException):
        ask(client, "wrong", max_retries=0)


@pytest.mark.parametrize("mode", [Mode.TOOLS, Mode.JSON_SCHEMA], ids=str)
def test_a_stream_gives_parts_of_a_value(written: str, key: str, mode: Mode) -> None:
    parts = list(
        client_of(written, key, mode).chat.completions.create_partial(
            model="tiny", response_model=Weather, messages=[{"role": "user", "content": "hi"}]
        )
    )
    assert parts[-1].model_dump() == FORECAST
    assert len({str(part) for part in parts}) > 2


def test_a_chat_without_a_type(written: str, key: str) -> None:
    completion = ask(client_of(written, key), response_model=None)
    assert completion.choices[0].message.content == "hello there"


def test_messages_of_anthropic(written: str, key: str) -> None:
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=written, api_key=key, max_retries=0))
    assert ask(client, max_tokens=300).model_dump() == FORECAST


def test_the_asynchronous_client(written: str, key: str) -> None:
    async def scenario() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{written}/v1", api_key=key, max_retries=0) as inner:
            return await ask(instructor.from_openai(inner))

    assert asyncio.run(scenario()).model_dump() == FORECAST


def test_what_the_server_refuses_is_told(written: str, key: str) -> None:
    with pytest.raises(InstructorRetryException, match="temperature out of range"):
        ask(client_of(written, key), temperature=7.0)


class BoundedWeather(pydantic.BaseModel, extra="forbid"):
    """A small model that may write on and on does."""

    city: Annotated[str, pydantic.Field(max_length=24)]
    days: Annotated[int, pydantic.Field(ge=0, le=31)]


@pytest.mark.model
def test_the_embedded_model_fills_a_type(served: str) -> None:
    weather = ask(
        client_of(served, "none", Mode.JSON_SCHEMA),  # its template has no tools
        "Three days of rain in Rome, as JSON.",
        model="SmolLM2-135M-Instruct.Q4_1",
        response_model=BoundedWeather,
        temperature=0,
        max_tokens=96,
    )
    assert isinstance(weather, BoundedWeather)
