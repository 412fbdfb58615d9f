"""What the machine can do at most, measured beside what is compared with it.

The roof of an op is the longer of two times: reading what it must from where that lies, and finishing its operations at
the peak of their kind. Both are measured on the op's own pool of threads, moments before or after it runs, so that a
neighbour's load or a lower clock weighs on both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

EVICT_BYTES = 64 << 20  # read to empty the caches; more than twice the last level's on most machines
LINE_BYTES = 64
TRIES = 3  # the best of which is the roof: no accident makes a machine faster


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What no implementation of an op can do without.

    bytes  that it reads (or writes) once: weights or KV; activations only where there is nothing else
    ops    by arithmetic (fp32, bf16, int8), two for each multiply-add
    """

    bytes: int
    ops: Mapping[str, int] = field(default_factory=dict)


class Roofline:
    """A pool's roofs. Holds memory of four times what empties the caches, and walks through it in a circle."""

    def __init__(self, native: Any, pool: Any, instruction_set: str) -> None:
        self._native = native
        self._pool = pool
        self._instruction_set = instruction_set
        self._arena = torch.ones(4 * EVICT_BYTES // 8, dtype=torch.int64)
        self._at_byte = 0

    def evict(self) -> None:
        """Empty the caches; the pool's threads stay awake."""
        self._native.read_bytes_per_s(self._pool, self._next(EVICT_BYTES), EVICT_BYTES)

    def evict_by_torch(self) -> None:
        """The same, with torch's threads awake afterwards."""
        start = (self._next(EVICT_BYTES) - self._arena.data_ptr()) // 8
        self._arena[start : start + EVICT_BYTES // 8].sum()

    def warm(self, tensor: torch.Tensor) -> None:
        """Bring a tensor into the caches of the pool's threads, which stay awake."""
        size_bytes = tensor.nbytes // LINE_BYTES * LINE_BYTES
        if size_bytes:
            self._native.read_bytes_per_s(self._pool, tensor.data_ptr(), size_bytes)

    def bytes_per_s(self, size_bytes: int, *, cold: bool) -> float:
        """Of a read of this size, out of memory (cold) or again and again."""
        size_bytes = max(LINE_BYTES, min(size_bytes, EVICT_BYTES) // LINE_BYTES * LINE_BYTES)
        places = TRIES if cold else 1
        addresses = [self._next(size_bytes) for _ in range(places)] * (1 if cold else TRIES + 1)
        return max(float(self._native.read_bytes_per_s(self._pool, address, size_bytes)) for address in addresses)

    def ops_per_s(self, arithmetic: str) -> float:
        """The peak of a kind of arithmetic."""
        peak = self._native.peak_ops_per_s
        return max(float(peak(self._pool, self._instruction_set, arithmetic)) for _ in range(TRIES))

    def floor_s(self, work: Work, *, cold: bool) -> float:
        """The least time for some work. Cold: call `evict` before."""
        read_s = work.bytes / self.bytes_per_s(work.bytes, cold=cold)
        compute_s = sum(count / self.ops_per_s(arithmetic) for arithmetic, count in work.ops.items())
        return max(read_s, compute_s)

    def _next(self, size_bytes: int) -> int:
        """The address of memory that was read longest ago."""
        if self._at_byte + size_bytes > self._arena.nbytes:
            self._at_byte = 0
        address = self._arena.data_ptr() + self._at_byte
        self._at_byte += size_bytes
        return address
