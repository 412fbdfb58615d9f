"""Structured outputs through the official client: `.parse()` gives the caller's own types."""

from collections.abc import Iterator
from enum import StrEnum

import openai
import pydantic
import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, run_live, says, stand


class Sky(StrEnum):
    CLEAR = "clear"
    GREY = "grey"


class Day(pydantic.BaseModel):
    name: str
    sky: Sky


class Forecast(pydantic.BaseModel):
    """With references, an enum, a list and something optional, as the client's schemas have them."""

    city: str
    days: list[Day]
    note: str | None


FORECAST = Forecast(city="Köln 🌧", days=[Day(name="Monday", sky=Sky.GREY)], note=None)


def script(submit: Submit) -> list[TokenEvent]:
    assert submit.constraint is not None
    data = FORECAST.model_dump_json().encode()
    if submit.params.max_tokens < len(data):
        return says(data[: submit.params.max_tokens], FinishReason.LENGTH, per_event=5)(submit)
    return says(data, per_event=5)(submit)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Stand, str]]:
    here = stand(script)
    with run_live(here) as (host, port):
        yield here, f"http://{host}:{port}/v1"


@pytest.fixture
def client(served: tuple[Stand, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served[1], api_key="-", max_retries=0, _strict_response_validation=True) as client:
        yield client


def test_parse_gives_a_value_of_the_callers_own_type(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(
        model="tiny", messages=[{"role": "user", "content": "hi"}], response_format=Forecast
    )
    assert completion.choices[0].message.parsed == FORECAST
    assert completion.choices[0].finish_reason == "stop"


def test_a_stream_gives_it_at_its_end(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny", messages=[{"role": "user", "content": "hi"}], response_format=Forecast
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in kinds
    assert kinds.count("content.done") == 1
    assert final.choices[0].message.parsed == FORECAST


def test_a_cut_output_is_said_to_be_one(client: openai.OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(
            model="tiny", messages=[{"role": "user", "content": "hi"}], response_format=Forecast, max_tokens=9
        )


def test_a_schema_that_cannot_be_enforced_is_the_callers_error(client: openai.OpenAI) -> None:
    schema = {"type": "array", "uniqueItems": True}
    with pytest.raises(openai.BadRequestError, match="uniqueItems") as caught:
        client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "hi"}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        )
    assert (caught.value.code, caught.value.param) == ("invalid_schema", "response_format.json_schema.schema")
