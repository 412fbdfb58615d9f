"""What waits for the reader of one request: at most one event, however slow the reader is."""

import asyncio

from dayzero.core.events import TokenEvent
from dayzero.errors import InternalError


class Mailbox:
    """Holds events between the dispatcher of an engine's messages and the reader of one request.

    Events that wait are merged into one, so a slow reader gets longer deltas instead of a longer queue. One reader;
    both sides live on the same loop. Owns the events it is given: their lists grow in place.
    """

    def __init__(self) -> None:
        self._pending: TokenEvent | None = None
        self._error: InternalError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.is_finished = False  # the terminal event, or an error, has been put

    def put(self, event: TokenEvent) -> None:
        """Add an event; after the terminal one, nothing more is taken."""
        if self.is_finished:
            return
        self.is_finished = event.finish is not None
        self._pending = event if self._pending is None else merge(self._pending, event)
        self._wake()

    def fail(self, error: InternalError) -> None:
        """End the request with an error, once what waits has been read. A no-op after the terminal event."""
        if self.is_finished:
            return
        self.is_finished = True
        self._error = error
        self._wake()

    async def take(self) -> TokenEvent:
        """Wait for the next event, or raise what ended the request."""
        while self._pending is None:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event, self._pending = self._pending, None
        return event

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def merge(first: TokenEvent, second: TokenEvent) -> TokenEvent:
    """One event that says what two said. Takes the lists of `first` over."""
    first.tokens.extend(second.tokens)
    logprobs = first.logprobs
    if second.logprobs:
        logprobs = (logprobs or []) + second.logprobs
    return TokenEvent(
        first.request_id,
        first.tokens,
        finish=second.finish,
        logprobs=logprobs,
        prompt_logprobs=second.prompt_logprobs if first.prompt_logprobs is None else first.prompt_logprobs,
        cached_tokens=second.cached_tokens if first.cached_tokens is None else first.cached_tokens,
        error=second.error,
        embedding=second.embedding,
    )
