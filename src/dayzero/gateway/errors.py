"""The one sanitizer: what a client is told about any exception.

    {"error": {"message", "type", "param", "code"}}

A client's fault is answered with its message and hint; anything else with a fixed sentence, so that no internals,
paths or object representations leave (CVE-2026-22778). Official clients retry 408, 409, 429 and 5xx by themselves:
where a retry is useless, `x-should-retry: false` says so.
"""

import asyncio
import math
from dataclasses import dataclass

import msgspec
from starlette.exceptions import HTTPException

from dayzero.errors import CapacityError, DayzeroError, Draining, ReplicaLost, RequestError

OUR_FAULT = "the server had an error while processing your request"
CLIENT_GONE_STATUS = 499  # never sent: nobody is there; for the log and the metrics


class HeadersTooLarge(RequestError):
    """More header bytes than the gateway reads."""

    status = 431
    code = "headers_too_large"


class BodyTooSlow(RequestError):
    """The body did not arrive in time."""

    status = 408
    code = "request_timeout"


class UnknownResponse(RequestError):
    """No response of that id is kept for the caller."""

    status = 404
    code = "response_not_found"


class UnsupportedEndpoint(RequestError):
    """A known route, for which no model here is made."""

    code = "unsupported_endpoint"


class UnsupportedParameter(RequestError):
    """A known field whose meaning we cannot honour, so that ignoring it would give a wrong answer."""

    code = "unsupported_parameter"

    def __init__(self, param: str, *, hint: str | None = None) -> None:
        super().__init__(f"not supported: {param}", param=param, hint=hint or "leave it out")


class DeadlinePassed(DayzeroError):
    """The request took longer than it may. The same request would again."""

    status = 504
    kind = "timeout_error"
    code = "deadline_passed"


class ClientGone(Exception):  # nothing is wrong with us
    """The client closed its connection, or does not read it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An error as HTTP."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def error_object(error: BaseException) -> dict[str, str | None]:
    """The value of "error"."""
    match error:
        case RequestError():
            return _object(_sentence(error), error.kind, error.param, error.code)
        case CapacityError() | DeadlinePassed():
            return _object(_sentence(error), error.kind, None, error.code)
        case ReplicaLost():
            return _object("the engine that held this request is gone", error.kind, None, error.code)
        case HTTPException():
            message, code = _HTTP_SENTENCES.get(error.status_code, ("the request cannot be served", None))
            return _object(message, "invalid_request_error" if error.status_code < 500 else "api_error", None, code)
        case _:
            return _object(OUR_FAULT, "api_error", None, "internal_error")


def reply_to(error: BaseException) -> Reply:
    """Status, headers and body for an error that came before the first byte of an answer."""
    headers: list[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]
    status = error.status if isinstance(error, DayzeroError) else 500
    match error:
        case CapacityError():
            headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after_s)))
            headers.append((b"retry-after-ms", b"%d" % math.ceil(error.retry_after_s * 1000)))
        case ReplicaLost():
            headers.append((b"retry-after", b"1"))
        case RequestError():
            if status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
        case HTTPException():
            status = error.status_code
            headers += [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in (error.headers or {}).items()]
        case _:
            headers.append((b"x-should-retry", b"false"))
    body = msgspec.json.encode({"error": error_object(error)})
    headers.append((b"content-length", b"%d" % len(body)))
    return Reply(status, tuple(headers), body)


def root_cause(error: BaseException) -> BaseException:
    """The first error of a task group's bundle: its siblings were cancelled because of it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def end_of_request(error: BaseException) -> BaseException:
    """What ended a request that raised this. Only a server that shuts down cancels one."""
    if isinstance(error, asyncio.CancelledError):
        return Draining("the server is shutting down", retry_after_s=5.0)
    return root_cause(error)


_HTTP_SENTENCES = {
    404: ("no such route", "not_found"),
    405: ("method not allowed", "method_not_allowed"),
}


def _sentence(error: DayzeroError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _object(message: str, kind: str, param: str | None, code: str | None) -> dict[str, str | None]:
    return {"message": message, "type": kind, "param": param, "code": code}
