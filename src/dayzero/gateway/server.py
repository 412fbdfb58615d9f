"""One gateway on one socket, until SIGTERM or SIGINT.

    signal -> nothing new is admitted (503) -> what runs finishes, up to drain_timeout_s -> the rest is told (503)
           -> the socket closes -> return

A second signal cuts the wait short.
"""

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from dayzero.errors import ConfigError
from dayzero.gateway.app import Gateway
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.errors import root_cause
from dayzero.gateway.protocol import BoundedProtocol

log = logging.getLogger(__name__)

_KEEP_ALIVE_CONNECTION_S = 75  # longer than the usual load balancer's, so that it closes first
# Its connections inherit it. The system would let megabytes wait in there for a client that does not read, and then
# say nothing of one that reads slowly until megabytes have gone.
_SEND_BUFFER_BYTES = 2**18
_CUT_OFF_S = 1  # for requests that were cancelled to say so


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
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
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
        for request in server.server_state.tasks:  # those that have not even been read, too
            request.cancel()
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
            http=functools.partial(BoundedProtocol, bounds=config),  # type: ignore[arg-type]
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


def _in_use(config: GatewayConfig, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on {config.host}:{config.port}: {error.strerror}", hint="choose another one with --port"
    )
