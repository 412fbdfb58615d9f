"""One gateway on one socket, until SIGTERM or SIGINT.

    signal -> nothing new is admitted (503) -> what runs finishes, up to drain_timeout_s -> the socket closes -> return

A second signal cuts the wait short.
"""

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dayzero.errors import ConfigError
from dayzero.gateway.app import Gateway
from dayzero.gateway.config import GatewayConfig, Limits
from dayzero.gateway.errors import HeadersTooLarge, reply_to, root_cause
from dayzero.gateway.middleware import ABORT

log = logging.getLogger(__name__)

_KEEP_ALIVE_CONNECTION_S = 75  # longer than the usual load balancer's, so that it closes first
_REFUSED_LINGER_S = 2.0  # a client that still sends sees the answer before the connection goes
_CUT_OFF_S = 1  # for requests that were cancelled to clean up


def bind(config: GatewayConfig) -> socket.socket:
    """Take the address, early: a port in use should not cost the time of loading a model. It does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise ConfigError(f"no such host: {config.host} ({error.strerror})") from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _in_use(config, error) from None
    return listener


async def serve(
    gateway: Gateway, config: GatewayConfig, listener: socket.socket, *, on_started: Callable[[], None]
) -> None:
    """Serve until a signal, then drain. Call it in the main thread, on uvloop for speed."""
    loop = asyncio.get_running_loop()
    server = create_server(gateway, config)
    stop = asyncio.Event()
    drain = asyncio.timeout(None)

    def on_signal() -> None:
        if stop.is_set():
            with contextlib.suppress(RuntimeError):  # not draining yet, or no longer
                drain.reschedule(loop.time())
        stop.set()

    async def stop_when_told() -> None:
        await stop.wait()
        gateway.admission.drain()
        log.info("draining", extra={"requests": gateway.admission.in_flight})
        try:
            async with drain:
                drain.reschedule(loop.time() + config.drain_timeout_s)
                await gateway.admission.wait_until_empty()
        except TimeoutError:
            log.warning("requests cut off", extra={"requests": gateway.admission.in_flight})
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(stop_when_told())
            group.create_task(_run(server, config, listener, on_started))
    except BaseExceptionGroup as bundle:
        raise root_cause(bundle) from None
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def create_server(gateway: Gateway, config: GatewayConfig) -> "DrainableServer":
    """A uvicorn server that leaves signals and logs to us."""
    return DrainableServer(
        uvicorn.Config(
            gateway.app,
            http=functools.partial(BoundedProtocol, limits=config.limits),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_CONNECTION_S,
            timeout_graceful_shutdown=_CUT_OFF_S,
        )
    )


class DrainableServer(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process by the signal instead of with 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _run(
    server: DrainableServer, config: GatewayConfig, listener: socket.socket, on_started: Callable[[], None]
) -> None:
    try:
        listener.listen(server.config.backlog)
    except OSError as error:  # bound by two at once: the second to listen fails
        raise _in_use(config, error) from None
    on_started()
    await server.serve(sockets=[listener])


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with what an application cannot do for itself.

    Headers are gathered inside the parser, before anything can refuse them: here their bytes are bounded
    (CVE-2025-48956), and their time. And a connection that nobody reads can be cut, by the scope's extension ABORT.
    """

    def __init__(self, *args: Any, limits: Limits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._held_bytes = 0  # fed since the parser last gave something away: a header, a path, a trailer that grows
        self._is_refused = False
        self._head_timer: asyncio.TimerHandle | None = None  # runs while a request's head is awaited

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._held_bytes += len(data)
        super().data_received(data)
        if self._held_bytes > self._limits.header_bytes and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
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

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_read_s, self.transport.close)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self) -> None:
        self._is_refused = True
        reply = reply_to(HeadersTooLarge(f"request headers too large (limit: {self._limits.header_bytes} bytes)"))
        headers = b"".join(b"%s: %s\r\n" % header for header in (*reply.headers, (b"connection", b"close")))
        self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\n%s\r\n%s" % (headers, reply.body))
        self.loop.call_later(_REFUSED_LINGER_S, self.transport.close)


def _in_use(config: GatewayConfig, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on {config.host}:{config.port}: {error.strerror}", hint="choose another one with --port"
    )
