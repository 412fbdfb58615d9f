"""Errors of Anthropic's paths are in Anthropic's form, wherever they come from; those of all others are in OpenAI's."""

import msgspec
import pytest

from dayzero.errors import (
    BodyTooLarge,
    DayzeroError,
    Draining,
    InternalError,
    QueueFull,
    ReplicaLost,
    RequestError,
    Unauthorized,
    UnknownModel,
)
from dayzero.gateway.errors import DeadlinePassed, reply_to
from dayzero.gateway.exchange import begin
from dayzero.gateway.openapi import MessagesErrorBody
from dayzero.gateway.replies import reply_for
from tests.gateway.stand import Stand, stand

BODY = {"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}


def told(error: BaseException, path: str = "/v1/messages") -> tuple[int, MessagesErrorBody, dict[bytes, bytes]]:
    scope = {"path": path, "headers": [(b"x-request-id", b"job-7")]}
    begin(scope, 0.0)
    reply = reply_for(scope, error)
    return reply.status, msgspec.json.decode(reply.body, type=MessagesErrorBody), dict(reply.headers)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (RequestError("no"), 400, "invalid_request_error"),
        (Unauthorized("no"), 401, "authentication_error"),
        (UnknownModel("no"), 404, "not_found_error"),
        (BodyTooLarge("no"), 413, "request_too_large"),
        (QueueFull("no"), 429, "rate_limit_error"),
        (Draining("no"), 529, "overloaded_error"),
        (ReplicaLost("no"), 503, "api_error"),
        (InternalError("secret"), 500, "api_error"),
        (ValueError("secret"), 500, "api_error"),
        (DeadlinePassed("no"), 504, "timeout_error"),
    ],
)
def test_each_error_has_anthropics_status_and_type(error: BaseException, status: int, kind: str) -> None:
    found, body, headers = told(error)
    assert (found, body.error.type, body.request_id) == (status, kind, "job-7")
    assert "secret" not in body.error.message
    assert headers.keys() == dict(reply_to(error).headers).keys()


def test_the_field_at_fault_begins_the_message_under_the_name_that_the_client_knows() -> None:
    for ours, theirs in (
        ("tools[3].function.parameters.items", "tools[3].input_schema.items"),
        ("tools[3].function.name", "tools[3].name"),
        ("stop", "stop_sequences"),
        ("messages", "messages"),
    ):
        assert told(RequestError("wrong", param=ours, hint="mend it"))[1].error.message == f"{theirs}: wrong; mend it"


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/batches"])
def test_every_path_below_is_anthropics(path: str) -> None:
    assert told(DayzeroError("x"), path)[0] == 500


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messagesx", "/V1/messages", "//v1/messages"])
def test_no_other_is(path: str) -> None:
    assert reply_for({"path": path}, RequestError("x")) == reply_to(RequestError("x"))


@pytest.mark.parametrize(
    ("this", "method", "path", "body", "headers", "status"),
    [
        (stand(api_keys=("k",)), "POST", "/v1/messages", BODY, {}, 401),
        (stand(), "GET", "/v1/messages", None, {}, 405),
        (stand(), "POST", "/v1/messages/batches", BODY, {}, 404),
        (stand(), "POST", "/v1/messages", {**BODY, "model": "other"}, {}, 404),
        (stand(), "POST", "/v1/messages", {"pad": "x" * (5 * 2**20)}, {}, 413),
        (stand(), "POST", "/v1/messages", BODY, {"x-long": "x" * 20_000}, 431),
        (stand(), "POST", "/v1/messages", {"max_tokens": 5}, {}, 400),
        (stand(), "POST", "/v1/messages", ["no object"], {}, 400),
        (stand(max_in_flight=1), "POST", "/v1/messages/count_tokens", {"messages": []}, {}, 400),
    ],
)
def test_wherever_an_error_comes_from(
    this: Stand, method: str, path: str, body: object, headers: dict[str, str], status: int
) -> None:
    response = this.request(method, path, json=body, headers=headers)
    assert response.status_code == status
    error = msgspec.json.decode(response.content, type=MessagesErrorBody)
    assert error.request_id == response.headers["request-id"]
