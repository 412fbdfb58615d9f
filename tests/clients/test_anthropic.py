"""Anthropic's own client, which refuses an answer that its types do not describe, against a server over a socket.

Runs in an environment of its own: `make clients`.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="Anthropic's client has an environment of its own: make clients")

import anthropic
import pydantic

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Submit
from tests.gateway.public_fields import PUBLIC, anthropic_fields
from tests.gateway.stand import Stand, byte_tokenizer, run_live, says, stand

pytestmark = pytest.mark.filterwarnings("default")

KEY = "sk-right"
QUESTION: Any = [{"role": "user", "content": "hi"}]
TOOLS: Any = [
    {
        "name": "weather",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    }
]
CALLS = (
    "<think>two of them</think>Let me see."
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln 🌧", "days": 3}}\n</tool_call>\n'
    '<tool_call>\n{"name": "weather", "arguments": {"city": "a \\"b\\" </tool", "days": 0}}\n</tool_call>'
)
INPUTS = [{"city": "Köln 🌧", "days": 3}, {"city": 'a "b" </tool', "days": 0}]


class Place(pydantic.BaseModel):
    """What a structured answer is."""

    city: str


def script(submit: Submit) -> list[TokenEvent]:
    """By what was asked for: calls, which a result answers; a place; an error; else a greeting."""
    prompt = byte_tokenizer().decode(submit.prompt)
    if "fail" in prompt:
        return [*says("hel", None)(submit), TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="secret")]
    if submit.constraint is not None and submit.constraint.grammar and "a place" in prompt:
        return says('{"city": "Köln"}')(submit)
    if "call" in prompt and "rain" not in prompt:
        data = CALLS.encode()
        cut = submit.params.max_tokens < len(data)
        return says(data[: submit.params.max_tokens], FinishReason.LENGTH if cut else FinishReason.STOP)(submit)
    return says("hello STOP there", per_event=3)(submit)


@pytest.fixture(scope="module")
def this() -> Stand:
    return stand(script, tool_format=FORMATS["hermes"], api_keys=(KEY,))


@pytest.fixture(scope="module")
def url(this: Stand) -> Iterator[str]:
    with run_live(this) as (host, port):
        yield f"http://{host}:{port}"


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0, _strict_response_validation=True) as client:
        yield client


def ask(client: Any, content: str = "hi", **fields: Any) -> Any:
    return client.messages.create(
        model="tiny", messages=[{"role": "user", "content": content}], **{"max_tokens": 300, **fields}
    )


def inputs(message: Any) -> list[object]:
    return [block.input for block in message.content if block.type == "tool_use"]


def test_a_plain_answer(client: Any) -> None:
    message = ask(client, system="Be brief.", metadata={"user_id": "u"})
    assert [block.text for block in message.content] == ["hello STOP there"]
    assert (message.role, message.stop_reason, message.stop_sequence) == ("assistant", "end_turn", None)
    assert message.usage.cache_read_input_tokens == 3
    assert message._request_id.startswith("req_")


def test_a_stop_sequence(client: Any) -> None:
    message = ask(client, stop_sequences=["STOP"])
    assert (message.content[0].text, message.stop_reason, message.stop_sequence) == ("hello ", "stop_sequence", "STOP")


def test_raw_events_of_a_stream(client: Any) -> None:
    kinds = [event.type for event in ask(client, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_the_clients_own_accumulator_of_a_stream(client: Any) -> None:
    with client.messages.stream(model="tiny", max_tokens=300, messages=QUESTION) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == "hello STOP there"
    assert final.usage == ask(client).usage


def test_thinking_and_calls_of_a_stream_are_those_of_a_plain_answer(client: Any) -> None:
    plain = ask(client, "call", tools=TOOLS, thinking={"type": "adaptive"})
    fields: Any = {"model": "tiny", "max_tokens": 300, "tools": TOOLS}
    with client.messages.stream(messages=[{"role": "user", "content": "call"}], **fields) as stream:
        snapshots = [event for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    assert [block.type for block in plain.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert inputs(plain) == inputs(final) == INPUTS
    of_plain, of_stream = ([block.to_dict() for block in message.content[:2]] for message in (plain, final))
    assert of_plain == of_stream
    assert (plain.stop_reason, final.stop_reason) == ("tool_use", "tool_use")
    assert len(snapshots) > 10  # as they are written


def test_a_conversation_goes_on_with_what_the_client_was_given(client: Any, this: Stand) -> None:
    first = ask(client, "call", tools=TOOLS)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "rain"}]}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages: Any = [
        {"role": "user", "content": "call"},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    again = client.messages.create(model="tiny", max_tokens=50, messages=messages, tools=TOOLS)
    assert again.content[0].text == "hello STOP there"
    counted = client.messages.count_tokens(model="tiny", messages=messages, tools=TOOLS).input_tokens
    assert counted == len(this.replica.submits[-1].prompt)


def test_a_cut_answer_says_so(client: Any) -> None:
    assert ask(client, "call", tools=TOOLS, max_tokens=20).stop_reason == "max_tokens"
    assert ask(client, max_tokens=20_000).stop_reason == "end_turn"


def test_parse_gives_the_clients_own_classes(client: Any) -> None:
    message = client.messages.parse(
        model="tiny", max_tokens=50, messages=[{"role": "user", "content": "a place"}], output_format=Place
    )
    assert message.parsed_output == Place(city="Köln")


def test_what_the_server_refuses_is_the_clients_own_error(client: Any, url: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as raised:
        ask(client, extra_body={"temperature": 7.0})
    assert raised.value.body["error"]["message"].startswith("temperature: ")
    assert raised.value.request_id
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="other", max_tokens=5, messages=QUESTION)
    with pytest.raises(anthropic.AuthenticationError):
        ask(anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0))


def test_a_failure_in_a_stream_is_the_clients_error(client: Any) -> None:
    with pytest.raises(anthropic.APIStatusError) as raised:
        list(ask(client, "fail", stream=True))
    assert "secret" not in str(raised.value)


def test_a_key_may_be_a_token_of_the_clients(url: str) -> None:
    assert ask(anthropic.Anthropic(base_url=url, auth_token=KEY, api_key=None)).content


def test_the_asynchronous_client(url: str) -> None:
    async def scenario() -> str:
        async with (
            anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
            client.messages.stream(model="tiny", max_tokens=300, messages=QUESTION) as stream,
        ):
            return "".join([text async for text in stream.text_stream])

    assert asyncio.run(scenario()) == "hello STOP there"


def test_the_example_of_the_docs_prints_a_reply(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    (code,) = [code for code in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "anthropic" in code]
    assert "http://127.0.0.1:8000" in code
    exec(code.replace("http://127.0.0.1:8000", url).replace('"none"', json.dumps(KEY)), {})
    assert capsys.readouterr().out.endswith("\nhello STOP there")


def test_the_fields_of_docs_are_those_of_anthropics_package() -> None:
    for route, names in anthropic_fields().items():
        assert PUBLIC[route]["Anthropic"] == names
