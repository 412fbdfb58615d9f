"""Structured outputs through all but weights: gateway, confined compiler, engine process, grammars in its steps."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import jsonschema

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.gateway.app import create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import EOS, SPEC, PlainRenderer, byte_tokenizer, sse

WORD = {"type": "string", "maxLength": 6}
SCHEMA = {
    "type": "object",
    "properties": {"name": WORD, "tags": {"type": "array", "items": WORD, "maxItems": 3}, "ok": {"type": "boolean"}},
    "required": ["name", "tags", "ok"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "save", "parameters": SCHEMA}}
PATH = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 400}

Client = httpx.AsyncClient


def served(use: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        model = FakeModel(vocab_size=SPEC.vocab_size, max_context=2048, eos_token_ids=(EOS,))
        engine = EngineProcess(EngineConfig(model="fake", fake=model))
        replica = await ProcessReplica.start(engine, on_loading=lambda _: None, timeout_s=60)
        replica.provide_tokenizer(byte_tokenizer().to_json)
        config = GatewayConfig(served_model_name="fake")
        gateway = create_app(
            config,
            replica,
            byte_tokenizer(),
            renderer=PlainRenderer(),
            defaults=GenerationDefaults(),
            tool_format=FORMATS["hermes"],
        )
        try:
            transport = httpx.ASGITransport(app=gateway.app)
            async with asyncio.timeout(30), Client(transport=transport, base_url="http://test", timeout=120) as client:
                await use(client)
        finally:
            await gateway.close()
            await replica.close()

    asyncio.run(main())


def test_whatever_a_model_says_completed_outputs_fit_their_schemas() -> None:
    response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    valid = jsonschema.Draft202012Validator(SCHEMA)

    async def use(client: Client) -> None:
        async def ask(seed: int) -> bool:
            body = {**BODY, "seed": seed, "response_format": response_format}
            choice = (await client.post(PATH, json=body)).json()["choices"][0]
            if choice["finish_reason"] == "stop":
                valid.validate(json.loads(choice["message"]["content"]))
            return bool(choice["finish_reason"] == "stop")

        finished = await asyncio.gather(*[ask(seed) for seed in range(40)])
        assert sum(finished) >= 20  # random thoughts before it may take all tokens

    served(use)


def test_whatever_a_model_says_it_calls_what_it_must_as_it_must() -> None:
    valid = jsonschema.Draft202012Validator(SCHEMA)

    async def use(client: Client) -> None:
        for seed in range(20):
            body = {**BODY, "seed": seed, "tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
            choice = (await client.post(PATH, json=body)).json()["choices"][0]
            if choice["finish_reason"] != "length":
                assert choice["finish_reason"] == "tool_calls"
                (call,) = choice["message"]["tool_calls"]
                assert call["function"]["name"] == "save"
                valid.validate(json.loads(call["function"]["arguments"]))
            told = sse(await client.post(PATH, json={**body, "stream": True}))
            assert told[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]

    served(use)


def test_a_schema_that_is_refused_leaves_the_server_as_it_was() -> None:
    async def use(client: Client) -> None:
        refused = {"type": "array", "uniqueItems": True}
        response = await client.post(PATH, json={**BODY, "guided_json": refused})
        assert response.status_code == 400
        assert "uniqueItems" in response.json()["error"]["message"]
        body = {"prompt": "hi", "n": 4, "guided_choice": ["yes", "no"]}
        choices = (await client.post("/v1/completions", json=body)).json()["choices"]
        assert {choice["text"] for choice in choices} <= {"yes", "no"}
        assert {choice["finish_reason"] for choice in choices} == {"stop"}

    served(use)
