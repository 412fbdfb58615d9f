"""An answer over ASGI: the same deltas as server-sent events or collected into one body.

Sends ASGI messages itself, one for each delta, without a task or a queue between an event and the socket. Beside the
work runs one watcher, which notices that the client has gone and keeps a silent stream alive.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from starlette.types import Message, Receive, Scope, Send

from dayzero.clock import Clock
from dayzero.gateway import exchange
from dayzero.gateway.aside import aside
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.errors import ClientGone, end_of_request, reply_to, root_cause
from dayzero.gateway.generate import Generator, Usage, Work
from dayzero.gateway.stream import Delta

T = TypeVar("T")

KEEP_ALIVE = b": keep-alive\n\n"
WRITE_ASIDE_FROM_SCORED = 256  # log-probs with twenty alternatives each: about 10 ms


class Format(Protocol):
    """How one API writes deltas. Every method returns bytes that are ready to send."""

    def opening(self) -> bytes:
        """The events that come before any delta."""
        ...

    def chunk(self, delta: Delta) -> bytes:
        """The event of one delta."""
        ...

    def closing(self, usage: Usage) -> bytes:
        """The events after the last delta."""
        ...

    def failure(self, error: BaseException) -> bytes:
        """The last events of a stream that failed after its first byte."""
        ...

    def whole(self, choices: Sequence[Sequence[Delta]], usage: Usage) -> bytes:
        """The body of a plain answer; one list of deltas for each choice."""
        ...


class EventStreamWriter:
    """Writes server-sent events. The status line goes out with the first of them, so that what fails before that is
    still an HTTP error.
    """

    def __init__(self, send: Send, opening: bytes, clock: Clock) -> None:
        self._send = send
        self._opening = opening
        self._clock = clock
        self.is_started = False
        self.is_writing = False  # something that the client has no room for yet
        self.last_write_s = clock.now_s()

    async def write(self, events: bytes, *, more: bool = True) -> None:
        self.is_writing = True
        self.last_write_s = self._clock.now_s()
        if not self.is_started:
            self.is_started = True
            events = self._opening + events
            await self._send(_start(b"text/event-stream; charset=utf-8", (b"cache-control", b"no-cache")))
        await self._send({"type": "http.response.body", "body": events, "more_body": more})
        self.is_writing = False


async def answer_stream(
    generator: Generator,
    work: Work,
    form: Format,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    config: GatewayConfig,
    clock: Clock,
) -> None:
    """Stream until every choice has ended. An error after the first byte becomes the last event."""
    streams = generator.streams(work)
    writer = EventStreamWriter(send, form.opening(), clock)

    async def write(delta: Delta) -> None:
        await writer.write(form.chunk(delta))

    async def on_quiet() -> None:
        if not writer.is_writing and clock.now_s() - writer.last_write_s >= config.keep_alive_s / 2:
            await writer.write(KEEP_ALIVE)

    this = exchange.of(scope)
    try:
        usage = await until_disconnect(generator.run(work, streams, write), receive, config.keep_alive_s, on_quiet)
    except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001 - whatever it was, the client is told
        error = end_of_request(raised)
        if isinstance(error, ClientGone) or not writer.is_started:
            raise error from None
        this.status = reply_to(error).status
        await writer.write(form.failure(error), more=False)
        raise error from None
    finally:
        this.output_tokens = sum(stream.num_tokens for stream in streams)
    await writer.write(form.closing(usage), more=False)


async def answer_whole(
    generator: Generator, work: Work, form: Format, scope: Scope, receive: Receive, send: Send, *, config: GatewayConfig
) -> None:
    """Run to the end, then answer at once."""
    streams = generator.streams(work)
    choices: list[list[Delta]] = [[] for _ in streams]

    async def collect(delta: Delta) -> None:
        choices[delta.index].append(delta)

    try:
        usage = await until_disconnect(
            generator.run(work, streams, collect), receive, config.keep_alive_s, wait_quietly
        )
    finally:
        exchange.of(scope).output_tokens = sum(stream.num_tokens for stream in streams)
    num_scored = sum(len(delta.scored) for deltas in choices for delta in deltas)
    body = await aside(lambda: form.whole(choices, usage), is_long=num_scored >= WRITE_ASIDE_FROM_SCORED)
    await send_json(send, body)


async def until_disconnect(
    work: Awaitable[T], receive: Receive, quiet_s: float, on_quiet: Callable[[], Awaitable[None]]
) -> T:
    """Await `work`, whose request body has been read. ClientGone, after cancelling it, if the client leaves.

    `on_quiet` is called every `quiet_s` seconds; what it raises ends the work too.
    """

    async def watch() -> None:
        while True:
            try:
                async with asyncio.timeout(quiet_s):
                    message: Message = await receive()
            except TimeoutError:
                await on_quiet()
                continue
            if message["type"] == "http.disconnect":
                raise ClientGone

    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(watch())
            result = await work
            watcher.cancel()
    except BaseExceptionGroup as bundle:
        raise root_cause(bundle) from None
    return result


async def send_json(send: Send, body: bytes) -> None:
    await send_bytes(send, body, b"application/json")


async def send_bytes(send: Send, body: bytes, content_type: bytes) -> None:
    await send(_start(content_type, (b"content-length", b"%d" % len(body))))
    await send({"type": "http.response.body", "body": body})


def _start(content_type: bytes, *headers: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type), *headers]}


async def wait_quietly() -> None:
    """A plain answer has nothing to keep alive."""
