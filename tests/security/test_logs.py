"""No word of a prompt, an output or a key in any log, at any level, on any path (T-LOGCANARY)."""

import io
import json
import logging
from collections.abc import Iterator

import httpx
import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.gateway.views.refused import SCORE_PATHS
from dayzero.log import JsonFormatter
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, run_live, says, stand

CANARY = "canary7391"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that any logger says, down to DEBUG, as the program would write it."""
    sink = io.StringIO()
    handler = logging.StreamHandler(sink)
    handler.setFormatter(JsonFormatter())
    names = ["", "dayzero", "uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"]
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    for logger, _ in before:
        logger.setLevel(logging.DEBUG)
    logging.getLogger().addHandler(handler)
    yield sink
    logging.getLogger().removeHandler(handler)
    for logger, level in before:
        logger.setLevel(level)


def script(submit: Submit) -> list[TokenEvent]:
    """The canary comes out too; choice 1 fails, choice 2 times out, and a high seed never ends."""
    if submit.choice == 1:
        return [TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="our fault")]
    if submit.choice == 2:
        return [TokenEvent(submit.request_id, finish=FinishReason.TIMEOUT)]
    return says(CANARY, FinishReason.STOP if submit.params.seed < 10 else None)(submit)


def exercise(this: Stand, client: httpx.Client) -> list[int]:
    """Every way a request can end, with the canary everywhere a client can write."""
    messages = [{"role": "user", "content": CANARY}]
    chat = {"messages": messages, "seed": 1, "user": CANARY}
    statuses = [
        client.post("/v1/chat/completions", json=body, params={"q": CANARY}).status_code
        for body in (
            chat,
            {**chat, "stream": True, "logprobs": True},
            {**chat, "n": 2},
            {**chat, "n": 2, "stream": True},
            {**chat, "n": 3},
            {**chat, "temperature": CANARY},
            {**chat, CANARY: CANARY},
            {**chat, "messages": [{"role": CANARY, "content": CANARY}]},
            {**chat, "stop": CANARY},
            {**chat, "model": CANARY},
            {**chat, "cache_salt": f"{CANARY} !"},
            {**chat, "chat_template": CANARY},
        )
    ]
    statuses += [
        client.post("/v1/completions", json={"prompt": CANARY, "echo": True, "seed": 1, "logprobs": 1}).status_code,
        client.post("/v1/completions", content=f'{{"prompt": "{CANARY}'.encode()).status_code,
        *(
            client.post("/v1/responses", json={"input": CANARY, "seed": 1, **fields}).status_code
            for fields in (
                {"instructions": CANARY, "metadata": {CANARY: CANARY}},
                {"stream": True},
                {"previous_response_id": CANARY},
                {"conversation": CANARY},
                {"input": [{"type": CANARY}]},
                {"include": [CANARY]},
            )
        ),
        *(
            client.post("/v1/messages", json={"messages": messages, "max_tokens": 5, "seed": 1, **fields}).status_code
            for fields in (
                {"system": CANARY, "metadata": {CANARY: CANARY}},
                {"stream": True},
                {"messages": [{"role": CANARY, "content": CANARY}]},
                {"messages": [{"role": "user", "content": [{"type": CANARY}]}]},
                {"tools": [{"name": CANARY, "type": CANARY}]},
                {"thinking": {"type": CANARY}},
                {"stop_sequences": [CANARY]},
            )
        ),
        *(
            client.post(path, json={**body, "model": model}, params={"q": CANARY}).status_code
            for path, body in (
                ("/v1/messages/count_tokens", {"messages": messages, "system": CANARY}),
                ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": [{"type": CANARY}]}]}),
                ("/v1/embeddings", {"input": CANARY, "user": CANARY}),
                ("/v1/embeddings", {"input": [CANARY, CANARY], "cache_salt": f"{CANARY} !"}),
                ("/v1/embeddings", {"input": CANARY, "pooling": CANARY}),
                ("/v1/embeddings", {"input": {CANARY: CANARY}}),
                ("/tokenize", {"prompt": CANARY, "return_token_strs": True}),
                ("/tokenize", {"messages": messages, CANARY: CANARY}),
                ("/tokenize", {"messages": [{"role": CANARY, "content": CANARY}]}),
                ("/detokenize", {"tokens": list(CANARY.encode())}),
                ("/detokenize", {"tokens": CANARY}),
                *((path, {"query": CANARY, "documents": [CANARY], CANARY: CANARY}) for path in SCORE_PATHS),
            )
            for model in ("tiny", CANARY)
        ),
        client.get(f"/v1/responses/{CANARY}", params={"after": CANARY}).status_code,
        client.get(f"/{CANARY}").status_code,
        client.get(f"/v1/models/{CANARY}").status_code,
        client.request(CANARY.upper(), "/health").status_code,
        client.get("/health", headers={"x-request-id": f"{CANARY} with a blank"}).status_code,
        client.get("/v1/models", headers={"authorization": f"Bearer {CANARY}"}).status_code,
    ]
    with client.stream("POST", "/v1/chat/completions", json={**chat, "seed": 99, "stream": True}) as response:
        next(response.iter_bytes())
    while this.gateway.admission.in_flight:  # each round trip gives the server a turn to see that the client has left
        client.get("/health")
    with this.gateway.admission.admit(this.config.max_in_flight):
        statuses.append(client.post("/v1/chat/completions", json=chat).status_code)
    this.replica.die()
    statuses.append(client.post("/v1/chat/completions", json=chat).status_code)
    return statuses


def test_no_word_of_a_client_reaches_a_log(log: io.StringIO) -> None:
    this = stand(script, api_keys=(f"key-{CANARY}",))
    with run_live(this) as (host, port):
        headers = {"authorization": f"Bearer key-{CANARY}"}
        with httpx.Client(base_url=f"http://{host}:{port}", headers=headers, timeout=30) as client:
            logging.getLogger("httpx").setLevel(logging.CRITICAL)
            logging.getLogger("httpcore").setLevel(logging.CRITICAL)
            statuses = exercise(this, client)
    assert {200, 400, 401, 404, 429, 500, 503} <= set(statuses)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert len(requests) >= len(statuses)
    assert {line["status"] for line in requests} >= {200, 400, 404, 499, 500, 503}
    assert CANARY not in log.getvalue().lower()


def test_no_word_of_a_response_that_is_kept_reaches_a_log(log: io.StringIO) -> None:
    this = stand(script, store_responses=True)
    kept = this.post("/v1/responses", {"input": CANARY, "seed": 1, "metadata": {CANARY: CANARY}}).json()
    path = f"/v1/responses/{kept['id']}"
    again = {"input": CANARY, "previous_response_id": kept["id"], "seed": 1, "stream": True}
    statuses = [
        this.post("/v1/responses", again).status_code,
        this.request("GET", path, params={"include": CANARY}).status_code,
        this.request("GET", f"{path}/input_items", params={"after": CANARY}).status_code,
        this.request("GET", f"{path}/input_items", params={"order": CANARY}).status_code,
        this.request("GET", f"{path}/input_items").status_code,
        this.request("POST", f"{path}/cancel", params={"q": CANARY}).status_code,
        this.request("DELETE", path, params={"q": CANARY}).status_code,
        this.request("GET", path).status_code,
        this.request("DELETE", f"/v1/responses/{CANARY}").status_code,
    ]
    assert kept["output"][0]["content"][0]["text"] == CANARY
    assert {200, 400, 404} == set(statuses)
    assert len([line for line in log.getvalue().splitlines() if json.loads(line)["event"] == "request"]) > len(statuses)
    assert CANARY not in log.getvalue().lower()


def test_a_defect_of_ours_is_logged_by_type_and_place_only(log: io.StringIO) -> None:
    class Broken:
        async def render(self, chat: object) -> object:
            raise ZeroDivisionError(f"about {chat}")

    assert stand(renderer=Broken()).chat(CANARY).status_code == 500
    failures = [json.loads(line) for line in log.getvalue().splitlines() if "request failed" in line]
    assert [failure["exception"] for failure in failures] == ["ZeroDivisionError"]
    assert CANARY not in log.getvalue()


def test_the_metrics_have_no_word_of_a_client() -> None:
    this = stand(script)
    this.chat(CANARY, seed=1)
    this.request("GET", f"/{CANARY}")
    this.request("GET", f"/v1/models/{CANARY}")
    assert CANARY not in this.request("GET", "/metrics").text
