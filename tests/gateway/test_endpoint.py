"""One model by several names, each with limits and a queue of its own."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from dayzero.core.spec import EndpointConfig, EndpointSpec
from dayzero.errors import ConfigError
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.endpoint import Endpoints
from dayzero.wire.messages import EndpointLoad, Load
from tests.gateway.stand import SPEC, Stand, says, stand, turns_until

HI = [{"role": "user", "content": "hi"}]


def spec_of(name: str, max_context: int) -> EndpointSpec:
    return EndpointSpec(
        name=name, max_context=max_context, max_requests=4, max_step_tokens=32, kv_blocks=32, kv_bytes=0
    )


ASKED = (
    EndpointConfig(names=("short", "chat"), max_context=64, max_in_flight=4),
    EndpointConfig(names=("long",), max_context=512, max_in_flight=2),
)
TWO = replace(SPEC, endpoints=(spec_of("short", 64), spec_of("long", 512)))


def two(script: Any = None, **config: Any) -> Stand:
    return stand(script, spec=TWO, endpoints=ASKED, **config)


@pytest.mark.parametrize(("model", "endpoint"), [("short", "short"), ("chat", "short"), ("long", "long")])
def test_a_name_leads_to_its_endpoint_and_is_repeated_in_the_answer(model: str, endpoint: str) -> None:
    this = two()
    assert this.chat(model=model).json()["model"] == model
    assert this.complete(model=model).json()["model"] == model
    assert [submit.endpoint for submit in this.replica.submits] == [endpoint] * 2


def test_a_request_that_names_no_model_is_for_the_first() -> None:
    this = two()
    assert this.chat().json()["model"] == "short"
    assert this.replica.submits[0].endpoint == "short"


def test_without_endpoints_there_is_one_of_the_served_name() -> None:
    this = stand()
    assert this.chat(model="tiny").json()["model"] == "tiny"
    assert this.replica.submits[0].endpoint == ""


@pytest.mark.parametrize(
    ("path", "body", "name_in"),
    [
        ("/v1/chat/completions", {"messages": HI}, lambda body: body["model"]),
        ("/v1/completions", {"prompt": "hi"}, lambda body: body["model"]),
        ("/v1/messages", {"messages": HI, "max_tokens": 5}, lambda body: body["model"]),
        ("/v1/responses", {"input": "hi"}, lambda body: body["model"]),
        ("/v1/embeddings", {"input": "hi"}, lambda body: body["model"]),
    ],
)
def test_every_view_serves_every_endpoint(
    path: str, body: dict[str, object], name_in: Callable[[Mapping[str, object]], object]
) -> None:
    this = two()
    answer = this.post(path, {**body, "model": "chat"})
    assert (answer.status_code, name_in(answer.json())) == (200, "chat")
    assert this.replica.submits[0].endpoint == "short"
    long = {"messages": [{"role": "user", "content": "x" * 80}]} if "messages" in body else {}
    long |= {name: "x" * 80 for name in ("prompt", "input") if name in body}
    too_long = this.post(path, {**body, **long, "model": "short"})
    assert (too_long.status_code, "context too long" in too_long.text) == (400, True)
    assert this.post(path, {**body, **long, "model": "long"}).status_code == 200


def test_the_room_for_an_output_is_that_of_the_endpoint() -> None:
    this = two()
    this.chat(model="short")
    this.chat(model="long")
    prompt_tokens = len(this.replica.submits[0].prompt)
    assert [submit.params.max_tokens for submit in this.replica.submits] == [64 - prompt_tokens, 512 - prompt_tokens]


def test_tokens_are_counted_against_the_context_of_the_endpoint() -> None:
    this = two()
    found = this.post("/tokenize", {"prompt": "hello", "model": "chat"}).json()
    assert found["max_model_len"] == 64
    ids = {"tokens": [65] * 100}
    assert this.post("/detokenize", {**ids, "model": "short"}).status_code == 400
    assert this.post("/detokenize", {**ids, "model": "long"}).status_code == 200


def test_each_name_is_listed_with_its_context() -> None:
    this = two()
    entries = this.request("GET", "/v1/models").json()["data"]
    assert {entry["id"]: entry["max_model_len"] for entry in entries} == {"short": 64, "chat": 64, "long": 512}
    assert this.request("GET", "/v1/models/chat").json() == entries[1]


def test_another_name_is_not_found_and_all_that_are_served_are_told() -> None:
    this = two()
    answer = this.chat(model="tiny")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert "served: short, chat, long" in answer.text
    assert this.request("GET", "/v1/models/tiny").status_code == 404


@dataclass
class Clients:
    """Of one gateway, on one loop."""

    stand: Stand
    client: httpx.AsyncClient

    def chat(self, model: str) -> "asyncio.Task[httpx.Response]":
        body = {"messages": HI, "model": model}
        return asyncio.create_task(self.client.post("/v1/chat/completions", json=body))

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(path)


def test_a_full_queue_answers_429_while_another_endpoint_answers_200() -> None:
    """Requests that say nothing never end, and so fill their queue."""
    this = two(lambda submit: [] if submit.endpoint == "long" else says("hello")(submit))

    async def scenario() -> None:
        transport = httpx.ASGITransport(app=this.gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            clients = Clients(this, client)
            stuck = [clients.chat("long") for _ in range(2)]
            await turns_until(lambda: len(this.replica.running) == 2)
            refused, served = await clients.chat("long"), await clients.chat("chat")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
            assert served.status_code == 200
            assert (await clients.get("/ready")).status_code == 200
            text = (await clients.get("/metrics")).text
            assert 'dayzero_endpoint_requests_in_flight{endpoint="long"} 2.0' in text
            assert 'dayzero_endpoint_requests_in_flight{endpoint="short"} 0.0' in text
            assert "dayzero_requests_in_flight 2.0" in text
            for request_id in list(this.replica.running):
                await this.replica.abort(request_id)
            await asyncio.gather(*stuck)
        assert this.gateway.admission.in_flight == 0

    asyncio.run(scenario())


def test_times_are_counted_for_each_endpoint_and_for_all() -> None:
    this = two()
    for model in ("short", "chat", "long"):
        this.chat(model=model)
    text = this.request("GET", "/metrics").text
    assert 'dayzero_endpoint_time_to_first_token_seconds_count{endpoint="short"} 2.0' in text
    assert 'dayzero_endpoint_time_to_first_token_seconds_count{endpoint="long"} 1.0' in text
    assert "dayzero_time_to_first_token_seconds_count 3.0" in text
    gaps = 'dayzero_endpoint_inter_token_latency_seconds_count{endpoint="long"} 5.0'
    assert gaps in text


def test_the_engines_numbers_are_told_by_endpoint() -> None:
    this = two()
    assert 'dayzero_endpoint_requests_running{endpoint="long"} 0.0' in this.request("GET", "/metrics").text
    parts = (EndpointLoad(running=1, kv_blocks_used=8, kv_blocks_total=32), EndpointLoad(waiting=3, preemptions=2))
    this.replica.load = Load(running=1, waiting=3, endpoints=parts)
    text = this.request("GET", "/metrics").text
    assert 'dayzero_endpoint_requests_running{endpoint="short"} 1.0' in text
    assert 'dayzero_endpoint_kv_blocks_used_ratio{endpoint="short"} 0.25' in text
    assert 'dayzero_endpoint_kv_blocks_used_ratio{endpoint="long"} 0.0' in text
    assert 'dayzero_endpoint_requests_waiting{endpoint="long"} 3.0' in text
    assert 'dayzero_endpoint_preemptions_total{endpoint="long"} 2.0' in text


def test_without_endpoints_no_metric_tells_them_apart() -> None:
    this = stand()
    this.chat()
    this.replica.load = Load(endpoints=(EndpointLoad(running=1),))
    assert "{endpoint=" not in this.request("GET", "/metrics").text


def test_the_log_says_which_endpoint_a_request_was_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dayzero.gateway.middleware")
    two().chat(model="chat")
    stand().chat()
    of_two, of_one = [record for record in caplog.records if record.message == "request"]
    assert of_two.__dict__["endpoint"] == "short"
    assert "endpoint" not in of_one.__dict__


def test_places_that_nobody_asks_for_are_shared_and_no_more_are_given_than_there_are() -> None:
    asked = (EndpointConfig(names=("short",), max_in_flight=100), EndpointConfig(names=("long",)))
    config = GatewayConfig(served_model_name="tiny", endpoints=asked, max_in_flight=128)
    found = Endpoints.of(config, TWO)
    assert [endpoint.admission.limit for endpoint in found] == [100, 28]
    assert found.admission.limit == 128
    with pytest.raises(ConfigError, match="100 of 100 requests in flight, and those that do not say need 1"):
        Endpoints.of(GatewayConfig(served_model_name="tiny", endpoints=asked, max_in_flight=100), TWO)


def test_a_stream_names_the_model_as_it_was_asked_for() -> None:
    answer = two().chat(model="chat", stream=True)
    chunks = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: {")]
    assert {json.loads(chunk)["model"] for chunk in chunks} == {"chat"}
