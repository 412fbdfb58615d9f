"""What one caller does is nothing to another: not by a chosen id, not by a salt, not by what is left in a slot."""

import asyncio
import json
from collections.abc import Sequence

import httpx
import pytest

from dayzero.core.events import TokenEvent
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, says, stand

KEYS = ("sk-a", "sk-b")


def echo(submit: Submit) -> Sequence[TokenEvent]:
    """The prompt comes back, token by token, so that turns of concurrent requests interleave."""
    return says(submit.prompt)(submit)


async def ask(client: httpx.AsyncClient, key: str, word: str, **fields: object) -> str:
    headers = {"authorization": f"Bearer {key}", "x-request-id": "the-same"}
    body = {"prompt": word, "max_tokens": 100, **fields}
    response = await client.post("/v1/completions", json=body, headers=headers)
    assert response.status_code == 200
    assert response.headers["x-request-id"] == "the-same"
    if not fields.get("stream"):
        return str(response.json()["choices"][0]["text"])
    events = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: {")]
    return "".join(json.loads(event)["choices"][0]["text"] for event in events)


def ask_all(this: Stand, questions: Sequence[tuple[str, str, bool]]) -> list[str]:
    async def scenario() -> list[str]:
        transport = httpx.ASGITransport(app=this.gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(*(ask(client, key, word, stream=stream) for key, word, stream in questions))

    return asyncio.run(scenario())


def test_requests_with_one_id_at_the_same_time_get_their_own_answers() -> None:
    """PYSEC-2026-4198: a cache keyed by the X-Request-Id that clients choose."""
    this = stand(echo, api_keys=KEYS)
    questions = [(KEYS[i % 2], f"canary-{i}", i % 3 == 0) for i in range(60)]
    assert ask_all(this, questions) == [word for _, word, _ in questions]
    assert len({submit.request_id for submit in this.replica.submits}) == 60
    assert this.replica.running == {}


def test_no_key_reads_lists_deletes_or_goes_on_from_what_another_key_had_kept() -> None:
    this = stand(says("canary"), api_keys=KEYS, store_responses=True)

    def ask(method: str, path: str, key: str, body: object = None) -> httpx.Response:
        return this.request(method, f"/v1/responses{path}", json=body, headers={"authorization": f"Bearer {key}"})

    kept = ask("POST", "", KEYS[0], {"input": "canary"}).json()["id"]
    for method, path in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")):
        response = ask(method, f"/{kept}{path}", KEYS[1])
        never = ask(method, f"/resp_never{path}", KEYS[1])
        assert (response.status_code, response.json()) == (404, never.json())
    assert ask("POST", "", KEYS[1], {"input": "x", "previous_response_id": kept}).status_code == 404
    assert ask("GET", f"/{kept}", KEYS[0]).status_code == 200


@pytest.mark.parametrize("salt", [None, "shared", "a" * 128])
def test_a_prefix_is_never_shared_between_two_keys_whatever_salt_they_agree_on(salt: str | None) -> None:
    """CVE-2025-46570: the time to the first token told whether another tenant had sent the same prompt."""
    this = stand(echo, api_keys=KEYS)
    extra = {} if salt is None else {"cache_salt": salt}
    for key in (*KEYS, KEYS[0]):
        this.post("/v1/completions", {"prompt": "hi", **extra}, headers={"authorization": f"Bearer {key}"})
    first, second, third = (submit.salt for submit in this.replica.submits)
    assert first == third != second


@pytest.mark.parametrize(
    "salt", ["", " ", "a b", "a\0b", "a\nb", "é", "../x", "a" * 129, "' OR 1=1--", "x" * 100_000, 5, ["a"], {"a": 1}]
)
def test_a_loose_salt_is_a_400(salt: object) -> None:
    """CVE-2026-105756: a salt that nobody had checked ended the engine."""
    this = stand()
    assert this.chat(cache_salt=salt).status_code == 400
    assert this.replica.submits == []


def test_many_prompts_leave_nothing_behind() -> None:
    """CVE-2026-94627: children that shared an id kept their memory for good."""
    this = stand(echo)
    for _ in range(20):
        assert this.complete(["hi"] * 64, n=4).status_code == 200
    assert this.replica.running == {}
    assert this.gateway.admission.in_flight == 0
