"""The official client against a live server: what it takes for granted, it must find."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import openai
import pytest

from dayzero.gateway.openapi import ErrorBody, MessagesErrorBody
from tests.gateway.stand import Stand, run_live, says, stand

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def this() -> Stand:
    return stand(lambda submit: says(f"hello {submit.choice}")(submit), api_keys=("sk-test",))


@pytest.fixture(scope="module")
def url(this: Stand) -> Iterator[str]:
    with run_live(this) as (host, port):
        yield f"http://{host}:{port}/v1"


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    """It refuses an answer that its types do not describe."""
    with openai.OpenAI(base_url=url, api_key="sk-test", max_retries=0, _strict_response_validation=True) as client:
        yield client


@pytest.fixture
def loose(url: str) -> Iterator[openai.OpenAI]:
    """The types of the older API leave no room for null, which it has always sent: the `finish_reason` of a chunk, the
    log-prob of the first token of an echo."""
    with openai.OpenAI(base_url=url, api_key="sk-test", max_retries=0) as client:
        yield client


def test_chat(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="tiny", messages=MESSAGES, n=2, logprobs=True, top_logprobs=2, seed=5, stop=["\n"], max_tokens=20
    )
    assert [choice.message.content for choice in completion.choices] == ["hello 0", "hello 1"]
    assert completion.choices[0].finish_reason == "stop"
    assert completion.choices[0].logprobs is not None
    assert completion.choices[0].logprobs.content is not None
    assert len(completion.choices[0].logprobs.content[0].top_logprobs) == 2
    assert completion.usage is not None
    assert completion.usage.prompt_tokens_details is not None
    assert completion.usage.prompt_tokens_details.cached_tokens == 3
    assert completion._request_id is not None
    assert completion._request_id.startswith("req_")


def test_chat_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello 0"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


def test_the_clients_own_accumulator_of_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="tiny", messages=MESSAGES) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "hello 0"
    assert final.choices[0].finish_reason == "stop"


def test_completions(loose: openai.OpenAI) -> None:
    completion = loose.completions.create(model="tiny", prompt="hi", echo=True, logprobs=1, max_tokens=8)
    choice = completion.choices[0]
    assert choice.text == "hihello 0"
    assert choice.logprobs is not None
    assert choice.logprobs.token_logprobs is not None
    assert choice.logprobs.text_offset is not None
    assert len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset) == 10


def test_completions_without_an_echo(client: openai.OpenAI) -> None:
    assert client.completions.create(model="tiny", prompt="hi", logprobs=1).choices[0].text == "hello 0"


def test_completions_stream(loose: openai.OpenAI) -> None:
    chunks = list(loose.completions.create(model="tiny", prompt="hi", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hello 0"


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_async(url: str) -> None:
    async def scenario() -> None:
        async with openai.AsyncOpenAI(
            base_url=url, api_key="sk-test", max_retries=0, _strict_response_validation=True
        ) as client:
            create = client.chat.completions.create
            plain, *rest = await asyncio.gather(*(create(model="tiny", messages=MESSAGES) for _ in range(8)))
            assert all(answer.choices == plain.choices for answer in rest)
            stream = await create(model="tiny", messages=MESSAGES, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            assert text == plain.choices[0].message.content == "hello 0"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"temperature": 9}, openai.BadRequestError),
        ({"model": "gpt-9"}, openai.NotFoundError),
        ({"max_tokens": 9999}, openai.BadRequestError),
    ],
)
def test_errors_are_the_clients_own_types(
    client: openai.OpenAI, fields: dict[str, Any], error: type[openai.APIStatusError]
) -> None:
    with pytest.raises(error) as caught:
        client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, **fields})
    assert isinstance(caught.value.body, dict)
    assert set(caught.value.body) == {"message", "type", "param", "code"}


def test_a_wrong_key_is_an_authentication_error(url: str) -> None:
    with (
        openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()


def test_a_client_that_closes_its_stream_frees_the_request(this: Stand, client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True, stop="never")
    next(iter(stream))
    stream.close()
    client.models.list()
    assert this.replica.running == {}


def test_a_wrong_method_is_told_all_the_right_ones(this: Stand) -> None:
    routes = set(this.gateway.routes)
    for path in {path for path, _ in routes}:
        refused = this.request("PATCH", path, headers={"authorization": "Bearer sk-test"})
        assert set(refused.headers["allow"].split(", ")) == {method for route, method in routes if route == path}


def test_every_route_answers_every_error_in_the_shape_of_its_api(this: Stand) -> None:
    routes, key = set(this.gateway.routes), {"authorization": "Bearer sk-test"}
    assert len(routes) >= 20
    for path, method in routes:
        shape = MessagesErrorBody if path.startswith("/v1/messages") else ErrorBody
        for wrong_method in {"PUT", "PATCH", "DELETE"} - {served for route, served in routes if route == path}:
            response = this.request(wrong_method, path, headers=key)
            assert response.status_code == 405, path
            assert msgspec.json.decode(response.content, type=shape)
        if method == "POST":
            for body in (b"", b"[]", b"{", b'{"prompt": {}}', b"\xff", b"null", b'{"messages": 3, "tokens": 3}'):
                response = this.post(path, body, headers=key)
                assert response.status_code == (404 if "{response}" in path else 400), (path, body)
                assert msgspec.json.decode(response.content, type=shape)


def test_head_has_the_headers_of_get_and_no_body(url: str) -> None:
    response = httpx.head(f"{url}/models", headers={"authorization": "Bearer sk-test"})
    assert (response.status_code, response.content) == (200, b"")
