"""How many engine requests may be in the system. Decides; waits for nothing."""

import asyncio
import contextlib
from collections.abc import Iterator

from dayzero.errors import Draining, QueueFull, RequestError


class Admission:
    """Counts engine requests from before their prompt is tokenized until their last byte is written.

    within   what counts those of others too; that one is drained, if any
    Invariant: 0 <= in_flight <= limit.
    """

    def __init__(self, limit: int, *, within: "Admission | None" = None) -> None:
        self.limit = limit
        self._within = within
        self.in_flight = 0
        self.is_draining = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def is_full(self) -> bool:
        return self.in_flight >= self.limit

    @contextlib.contextmanager
    def admit(self, count: int) -> Iterator[None]:
        """Hold `count` places. QueueFull if they are not free, Draining if nothing new is taken."""
        if (self._within or self).is_draining:
            raise Draining("the server is shutting down", retry_after_s=5.0)
        if count > self.limit:
            raise RequestError(f"too many choices at once: {count} (limit: {self.limit})", param="n")
        if self.in_flight + count > self.limit:
            raise QueueFull(f"the queue is full: {self.in_flight} requests (limit: {self.limit})")
        with contextlib.nullcontext() if self._within is None else self._within.admit(count):
            self.in_flight += count
            self._empty.clear()
            try:
                yield
            finally:
                self.in_flight -= count
                if self.in_flight == 0:
                    self._empty.set()

    def drain(self) -> None:
        """Take nothing new from now on."""
        self.is_draining = True

    async def wait_until_empty(self) -> None:
        await self._empty.wait()
