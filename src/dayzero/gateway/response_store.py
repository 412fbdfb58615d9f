"""Responses that a server was told to keep, for their tenants to go on from: in memory, bounded in bytes and in time.

Without `--store-responses` there is no store, and nothing of a request outlives its answer.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from dayzero.clock import Clock

_OVERHEAD_BYTES = 512  # what an entry costs beside its text


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """Both as JSON: what is kept is what is counted.

    body    the response as it was answered
    items   the list of its input items, those of the responses before it included
    """

    body: bytes
    items: bytes

    @property
    def num_bytes(self) -> int:
        return len(self.body) + len(self.items) + _OVERHEAD_BYTES


class ResponseStore:
    """Each tenant has a shelf of its own, so that none can read, or push out, what another one keeps.

    A response is forgotten `lifetime_s` after it was put, or when newer ones of its tenant need its room: the oldest
    first. Long answers are written in a thread, hence the lock.

    Invariant: a shelf holds at most `tenant_bytes`.
    """

    def __init__(self, *, tenant_bytes: int, lifetime_s: float, clock: Clock) -> None:
        self.tenant_bytes = tenant_bytes
        self.lifetime_s = lifetime_s
        self._clock = clock
        self._lock = threading.Lock()
        self._shelves: dict[str, _Shelf] = {}

    def put(self, tenant: str, response_id: str, stored: StoredResponse) -> bool:
        """False: it is too large to be kept."""
        if stored.num_bytes > self.tenant_bytes:
            return False
        with self._lock:
            self._forget_expired()
            shelf = self._shelves.setdefault(tenant, _Shelf())
            while shelf.num_bytes + stored.num_bytes > self.tenant_bytes:
                shelf.remove(next(iter(shelf.entries)))
            shelf.add(response_id, self._clock.now_s(), stored)
        return True

    def get(self, tenant: str, response_id: str) -> StoredResponse | None:
        """None: never kept, not for this tenant, or forgotten; a client cannot tell which."""
        with self._lock:
            self._forget_expired()
            shelf = self._shelves.get(tenant)
            entry = None if shelf is None else shelf.entries.get(response_id)
            return None if entry is None else entry[1]

    def delete(self, tenant: str, response_id: str) -> bool:
        """False: there is none that `get` would find."""
        with self._lock:
            self._forget_expired()
            shelf = self._shelves.get(tenant)
            return shelf is not None and shelf.remove(response_id)

    def forget_expired(self) -> bool:
        """Whether anything is left. Called now and then, so that what has expired is gone though nobody asks."""
        with self._lock:
            self._forget_expired()
            return bool(self._shelves)

    def _forget_expired(self) -> None:
        before_s = self._clock.now_s() - self.lifetime_s
        for tenant, shelf in list(self._shelves.items()):
            while shelf.entries:
                response_id, (put_s, _) = next(iter(shelf.entries.items()))
                if put_s > before_s:
                    break
                shelf.remove(response_id)
            if not shelf.entries:
                del self._shelves[tenant]


class _Shelf:
    """Entries in the order in which they were put, hence of their ends."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, tuple[float, StoredResponse]] = OrderedDict()
        self.num_bytes = 0

    def add(self, response_id: str, now_s: float, stored: StoredResponse) -> None:
        self.entries[response_id] = (now_s, stored)
        self.num_bytes += stored.num_bytes

    def remove(self, response_id: str) -> bool:
        entry = self.entries.pop(response_id, None)
        if entry is None:
            return False
        self.num_bytes -= entry[1].num_bytes
        return True
