import msgspec
import pytest
from starlette.exceptions import HTTPException

from dayzero.errors import (
    BodyTooLarge,
    CheckpointError,
    ContextTooLong,
    Draining,
    InternalError,
    QueueFull,
    ReplicaLost,
    RequestError,
    Unauthorized,
    UnknownModel,
)
from dayzero.gateway.errors import (
    OUR_FAULT,
    BodyTooSlow,
    DeadlinePassed,
    HeadersTooLarge,
    UnsupportedParameter,
    reply_to,
    root_cause,
)

CONTEXT_TOO_LONG = ContextTooLong(prompt_tokens=5, max_tokens=6, limit=7)
SECRET = "/srv/secret <Engine object at 0x7f00>"


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (RequestError("x", param="n"), 400, "invalid_request_error", None),
        (
            ContextTooLong(prompt_tokens=5, max_tokens=6, limit=7),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (UnsupportedParameter("audio"), 400, "invalid_request_error", "unsupported_parameter"),
        (Unauthorized("x"), 401, "authentication_error", "invalid_api_key"),
        (UnknownModel("x"), 404, "invalid_request_error", "model_not_found"),
        (BodyTooSlow("x"), 408, "invalid_request_error", "request_timeout"),
        (BodyTooLarge("x"), 413, "invalid_request_error", "request_too_large"),
        (QueueFull("x"), 429, "rate_limit_error", "queue_full"),
        (HeadersTooLarge("x"), 431, "invalid_request_error", "headers_too_large"),
        (InternalError(SECRET), 500, "api_error", "internal_error"),
        (CheckpointError(SECRET), 500, "api_error", "internal_error"),
        (ValueError(SECRET), 500, "api_error", "internal_error"),
        (ReplicaLost(SECRET), 503, "api_error", "replica_lost"),
        (Draining("x"), 503, "overloaded_error", "draining"),
        (DeadlinePassed("x"), 504, "timeout_error", "deadline_passed"),
        (HTTPException(404, SECRET), 404, "invalid_request_error", "not_found"),
        (HTTPException(405, SECRET), 405, "invalid_request_error", "method_not_allowed"),
    ],
)
def test_every_error_has_its_status_and_the_one_shape(error: Exception, status: int, kind: str, code: str) -> None:
    reply = reply_to(error)
    body = msgspec.json.decode(reply.body)
    assert reply.status == status
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (body["error"]["type"], body["error"]["code"]) == (kind, code)
    assert SECRET not in body["error"]["message"]


def test_a_client_is_told_what_to_do_next() -> None:
    body = msgspec.json.decode(reply_to(RequestError("too long", param="n", hint="shorten it")).body)
    assert body["error"]["message"] == "too long; shorten it"
    assert body["error"]["param"] == "n"


def test_a_full_queue_says_when_to_come_back() -> None:
    headers = dict(reply_to(QueueFull("x", retry_after_s=1.5)).headers)
    assert (headers[b"retry-after"], headers[b"retry-after-ms"]) == (b"2", b"1500")


def test_an_error_that_a_retry_would_repeat_says_so() -> None:
    for error in (ValueError("x"), InternalError("x"), DeadlinePassed("x")):
        assert dict(reply_to(error).headers)[b"x-should-retry"] == b"false"
    assert b"x-should-retry" not in dict(reply_to(ReplicaLost("x")).headers)


def test_our_fault_is_a_fixed_sentence() -> None:
    assert msgspec.json.decode(reply_to(ZeroDivisionError(SECRET)).body)["error"]["message"] == OUR_FAULT


def test_the_root_cause_of_nested_groups_is_found() -> None:
    error = KeyError("x")
    assert root_cause(ExceptionGroup("a", [ExceptionGroup("b", [error]), ValueError()])) is error
