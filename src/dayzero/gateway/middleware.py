"""What every request passes on its way in, whichever route it is for. Plain ASGI, outermost first:

Exchanges      an id, response headers, one log line, metrics
(CORS)         Starlette's
ErrorBoundary  any exception becomes an answer, or the end of one; nothing is raised to the server
Authenticate   a key for every path but /health, decided on the raw path of the scope (CVE-2026-48710)
BoundBody      bytes counted as they stream in
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dayzero.clock import Clock
from dayzero.errors import BodyTooLarge, CapacityError, Unauthorized
from dayzero.gateway import exchange
from dayzero.gateway.errors import CLIENT_GONE_STATUS, ClientGone, HeadersTooLarge, Reply, end_of_request
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.replies import reply_for

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health"})
_MAX_IGNORED_CHARS = 1024
_MORE = ", ..."


class Exchanges:
    """Gives each request its Exchange, and tells what became of it."""

    def __init__(self, app: ASGIApp, clock: Clock, metrics: Metrics) -> None:
        self._app = app
        self._clock = clock
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        this = exchange.begin(scope, self._clock.now_s())

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                this.status = message["status"]
                message = {**message, "headers": [*message["headers"], *self._headers(this)]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            self._report(scope, this)

    def _headers(self, this: exchange.Exchange) -> list[tuple[bytes, bytes]]:
        elapsed_ms = round((self._clock.now_s() - this.started_s) * 1000)
        name = this.id.encode()
        headers = [(b"x-request-id", name), (b"request-id", name), (b"openai-processing-ms", b"%d" % elapsed_ms)]
        if this.ignored_fields:
            headers.append((b"x-ignored-fields", _listed(this.ignored_fields).encode()))
        if this.seed is not None:
            headers.append((b"x-seed", b"%d" % this.seed))
        return headers

    def _report(self, scope: Scope, this: exchange.Exchange) -> None:
        elapsed_s = self._clock.now_s() - this.started_s
        self._metrics.requests.labels(this.route, str(this.status)).inc()
        self._metrics.request_s.observe(elapsed_s)
        fields = {
            "id": this.id,
            "method": scope["method"] if scope["method"] in _METHODS else "other",
            "route": this.route,
            "status": this.status,
            "ms": round(elapsed_s * 1000, 1),
            "prompt_tokens": this.prompt_tokens,
            "output_tokens": this.output_tokens,
        }
        if this.seed is not None:
            fields["seed"] = this.seed
        if this.endpoint:
            fields["endpoint"] = this.endpoint
        log.info("request", extra=fields)


def _listed(names: Sequence[str]) -> str:
    """Whole names, as many as there is room for; "..." stands for the others."""
    told = ", ".join(names)
    if len(told) <= _MAX_IGNORED_CHARS:
        return told
    return f"{told[: _MAX_IGNORED_CHARS - len(_MORE)].rpartition(', ')[0]}{_MORE}"


class ErrorBoundary:
    """The gateway's last handler."""

    def __init__(self, app: ASGIApp, header_bytes: int) -> None:
        self._app = app
        self._header_bytes = header_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def watched_send(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            check_headers(scope, self._header_bytes)
            await self._app(scope, receive, watched_send)
        except (Exception, asyncio.CancelledError) as raised:
            error = end_of_request(raised)
            this = exchange.of(scope)
            if isinstance(error, ClientGone):
                this.status = CLIENT_GONE_STATUS
                return
            reply = reply_for(scope, error)
            if reply.status >= 500 and not isinstance(error, CapacityError):
                log.error("request failed", extra={"id": this.id}, exc_info=error)
            if not is_started:
                await send_reply(send, reply)


class Authenticate:
    """Lets a request pass with one of the keys, compared in constant time (CVE-2025-59425)."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._digests = [_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._digests and scope["path"] not in OPEN_PATHS:
            exchange.of(scope).tenant = self._tenant(scope)
        await self._app(scope, receive, send)

    def _tenant(self, scope: Scope) -> str:
        """The digest of the caller's key. Unauthorized if it has none, or several."""
        keys = _keys(scope)
        offered = _digest(keys[0] if len(keys) == 1 else b"")  # no key is empty
        # No early exit: how long the comparison takes says nothing about which key came close.
        matches = [hmac.compare_digest(offered, digest) for digest in self._digests]
        if not any(matches):
            raise Unauthorized(
                "no valid api key", hint="send one, as 'Authorization: Bearer <key>' or as 'x-api-key: <key>'"
            )
        return offered.hex()


class BoundBody:
    """Refuses a body over the limit, before the first byte if it is announced, else when the limit is reached."""

    def __init__(self, app: ASGIApp, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > self._limit_bytes):
                raise self._refusal()
        num_bytes = 0

        async def counted_receive() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._limit_bytes:
                raise self._refusal()
            return message

        await self._app(scope, counted_receive, send)

    def _refusal(self) -> BodyTooLarge:
        return BodyTooLarge(f"request body too large (limit: {self._limit_bytes} bytes)")


def check_headers(scope: Scope, limit_bytes: int) -> None:
    """HeadersTooLarge if names, values, path and query are longer than the limit together."""
    num_bytes = sum(len(name) + len(value) for name, value in scope["headers"])
    num_bytes += len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if num_bytes > limit_bytes:
        raise HeadersTooLarge(f"request headers too large: {num_bytes} bytes (limit: {limit_bytes})")


async def send_reply(send: Send, reply: Reply) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": list(reply.headers)})
    await send({"type": "http.response.body", "body": reply.body})


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _keys(scope: Scope) -> list[bytes]:
    """All that a caller offers; b"" for what is no key."""
    keys = []
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            keys.append(key.strip() if scheme.lower() == b"bearer" else b"")
        elif name == b"x-api-key":
            keys.append(value.strip())
    return keys


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(b"dayzero-key:" + key).digest()
