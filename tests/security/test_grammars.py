"""What is small to send and dear to compile: CVE-2026-55574, PYSEC-2026-3933, CVE-2026-105757, CVE-2025-48942,
CVE-2025-48943, CVE-2025-57809, CVE-2025-32381.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from bench.bombs import bombs, unlike
from dayzero.checkpoint.config import GenerationDefaults
from dayzero.gateway.app import create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.gate import Gate
from dayzero.router.fake import FakeReplica
from tests.gateway.stand import SPEC, PlainRenderer, byte_tokenizer, says

ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
PLAIN = {"response_format": {"type": "json_object"}}


def answers(asked: list[tuple[str, dict[str, Any]]]) -> list[httpx.Response]:
    """Of one server that compiles in confined processes, in order."""

    async def main() -> list[httpx.Response]:
        replica = FakeReplica(SPEC, says("{}"))
        gate = Gate(byte_tokenizer().to_json, SPEC.vocab_size, SPEC.eos_token_ids, limit_s=1.0)
        gateway = create_app(
            GatewayConfig(served_model_name="tiny"),
            replica,
            byte_tokenizer(),
            renderer=PlainRenderer(),
            defaults=GenerationDefaults(),
            tool_format=FORMATS["hermes"],
            gate=gate,
        )
        transport = httpx.ASGITransport(app=gateway.app)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60) as client:
                return [await client.post(path, json=body_of(path, fields)) for path, fields in asked]
        finally:
            await gate.close()

    return asyncio.run(main())


def takes(path: str, fields: Mapping[str, Any]) -> bool:
    if path.endswith("responses"):
        return "structured_outputs" not in fields
    return path.endswith("chat/completions") or "tools" not in fields


def body_of(path: str, fields: dict[str, Any]) -> dict[str, Any]:
    if path.endswith("responses"):
        return {"input": "hi", **of_responses(fields)}
    subject = (
        {"messages": [{"role": "user", "content": "hi"}]} if path.endswith("chat/completions") else {"prompt": "hi"}
    )
    return {**subject, **fields}


def of_responses(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of chat as responses have them."""
    if "tools" in fields:
        tools = [{"type": "function", **tool["function"]} for tool in fields["tools"]]
        return {**fields, "tools": tools}
    form = fields["response_format"]
    return {"text": {"format": {"type": form["type"], **form.get("json_schema", {})}}}


@pytest.mark.parametrize("path", ROUTES)
def test_a_bomb_is_a_400_or_harmless_and_the_next_request_is_served(path: str) -> None:
    dear = [fields for fields in bombs().values() if takes(path, fields)]
    asked = [(path, one) for fields in dear for one in (dict(fields), PLAIN)]
    found = answers(asked)
    assert {response.status_code for response in found[::2]} <= {200, 400}
    assert sum(response.status_code == 400 for response in found[::2]) > len(dear) // 3
    for response in found[::2]:
        if response.status_code == 400:
            assert len(response.text) < 1000
            assert response.json()["error"]["message"]
    assert {response.status_code for response in found[1::2]} == {200}


def test_every_schema_of_a_flood_is_compiled_and_none_is_kept_by_its_text() -> None:
    found = answers([(ROUTES[0], dict(unlike(number))) for number in range(200)])
    assert {response.status_code for response in found} == {200}


def test_a_keyword_of_any_type_is_an_answer_or_a_400() -> None:
    names = ("type", "pattern", "enum", "properties", "items", "$ref", "required", "anyOf", "minLength", "x-guidance")
    values = (5, None, True, "x", [], {}, [5], {"a": 5}, -1, 1e308)
    schemas = [{name: value} for name in names for value in values]
    found = answers([(ROUTES[0], {"guided_json": schema}) for schema in schemas])
    assert {response.status_code for response in found} == {200, 400}
