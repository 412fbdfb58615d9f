"""The seam between a gateway and whatever generates tokens: an engine process, or a fake."""

from collections.abc import AsyncIterator
from typing import Protocol

from dayzero.core.events import RequestId, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.wire.messages import Load, Submit


class Replica(Protocol):
    """A place that can generate."""

    @property
    def spec(self) -> EngineSpec: ...

    @property
    def load(self) -> Load:
        """As of the last step."""
        ...

    @property
    def is_alive(self) -> bool: ...

    def generate(self, submit: Submit) -> AsyncIterator[TokenEvent]:
        """Yield events up to and including the terminal one.

        Events that wait are merged into one, so that a slow reader gets longer deltas instead of a longer queue.
        Leaving the iterator early, for whatever reason, aborts the request. Raises ReplicaLost if the place dies.
        """
        ...

    async def abort(self, request_id: RequestId, num_kept: int | None = None) -> None:
        """End the request with ABORT; a no-op after its terminal event. For `num_kept` see `wire.messages.Abort`."""
        ...
