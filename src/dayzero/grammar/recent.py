"""What was lately found out about grammars, by their content.

Bounded by bytes: a flood of grammars costs time, but no memory (CVE-2025-32381). Nothing is written to disk
(CVE-2025-29770).
"""

import hashlib
import threading
from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """May be used by several threads. What was not asked for longest gives way."""

    def __init__(self, max_bytes: int) -> None:
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._by_hash: OrderedDict[bytes, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, grammar: str) -> T | None:
        key = _hash(grammar)
        with self._lock:
            if key not in self._by_hash:
                return None
            self._by_hash.move_to_end(key)
            return self._by_hash[key][0]

    def put(self, grammar: str, value: T, num_bytes: int) -> None:
        """`num_bytes`: what the value takes, roughly. One that takes more than there is room for is not kept."""
        if num_bytes > self._max_bytes:
            return
        key = _hash(grammar)
        with self._lock:
            if key in self._by_hash:
                self.num_bytes -= self._by_hash.pop(key)[1]
            self._by_hash[key] = value, num_bytes
            self.num_bytes += num_bytes
            while self.num_bytes > self._max_bytes:
                _, (_, given_back) = self._by_hash.popitem(last=False)
                self.num_bytes -= given_back


def _hash(grammar: str) -> bytes:
    return hashlib.sha256(grammar.encode()).digest()
