"""uvicorn's HTTP protocol with what an application cannot do for itself.

Bounds what is gathered before an application sees it, and what waits after it has answered.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from dayzero.errors import RequestError
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.errors import HeadersTooLarge, reply_to

_REFUSED_LINGER_S = 2.0  # a client that still sends sees the answer before the connection goes
_LOOKS_PER_TIMEOUT = 4


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    Headers are gathered inside the parser, before anything can refuse them: here their bytes are bounded
    (CVE-2025-48956), and their time. A connection whose client takes nothing of what waits for it is cut after
    `write_timeout_s`, whether its request still runs or not. A request whose client has gone is told so even if others
    are queued behind it.
    """

    def __init__(self, *args: Any, bounds: GatewayConfig, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = bounds.limits.header_bytes
        self._head_read_s = bounds.limits.head_read_s
        self._write_timeout_s = bounds.write_timeout_s
        self._held_bytes = 0  # fed since the parser last gave something away: a header, a path, a trailer that grows
        self._is_refused = False
        self._served: RequestResponseCycle | None = None  # the others wait behind it
        self._head_timer: asyncio.TimerHandle | None = None  # runs while a request's head is awaited
        self._reader_timer: asyncio.TimerHandle | None = None
        self._waiting_bytes = 0  # of answers, at the last look
        self._taken_s = 0.0  # when the client last took some of them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        self._look_at_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._held_bytes += len(data)
        super().data_received(data)
        if self._held_bytes > self._header_bytes and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._held_bytes = 0
        self._cancel_head_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What the parser cannot read; in the middle of an answer there is no place for another one."""
        del msg
        if self._served is None or self._served.response_complete:
            self._write_reply(RequestError("not an HTTP request"))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """A server may ignore the wish for another protocol, and this one does."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_read_s, self.transport.close)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _look_at_reader(self) -> None:
        """While writing is paused, or the connection closes, nothing is added: what waits shrinks by what is taken."""
        now_s = self.loop.time()
        waiting_bytes = self.transport.get_write_buffer_size()
        is_fixed = self.flow.write_paused or self.transport.is_closing()
        if not (is_fixed and waiting_bytes and waiting_bytes == self._waiting_bytes):
            self._waiting_bytes, self._taken_s = waiting_bytes, now_s
        elif now_s - self._taken_s >= self._write_timeout_s:
            self.transport.abort()  # closing would wait for a client that does not read
            return
        self._reader_timer = self.loop.call_later(self._write_timeout_s / _LOOKS_PER_TIMEOUT, self._look_at_reader)

    def _refuse(self) -> None:
        self._is_refused = True
        self._write_reply(HeadersTooLarge(f"request headers too large (limit: {self._header_bytes} bytes)"))
        self.loop.call_later(_REFUSED_LINGER_S, self.transport.close)

    def _write_reply(self, error: RequestError) -> None:
        reply = reply_to(error)
        headers = b"".join(b"%s: %s\r\n" % header for header in (*reply.headers, (b"connection", b"close")))
        status = b"%d %s" % (reply.status, HTTPStatus(reply.status).phrase.encode())
        self.transport.write(b"HTTP/1.1 %s\r\n%s\r\n%s" % (status, headers, reply.body))
