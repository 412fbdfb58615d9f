"""How many rows a call may have so that the bits of a row do not depend on its companions.

Products: a library picks its loops by the number of rows, and with them the order in which it adds. Where the order
changes is a property of processor, library version and shape, so it is probed at start, with inputs whose exact sum is
zero: what comes out is nothing but the rounding of that order, and another order shows in nearly every element.
Source of the recipe: rows are padded up to `low` and cut into slices of at most `high`.

Elementwise ops: see `elementwise_slices`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

VECTOR = 64  # elements of the longest unrolled vector: two of 32 bfloat16
PROBED = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Calls have low..high rows: fewer are padded, more are sliced."""

    low: int
    high: int

    def slices(self, rows: int) -> Iterable[tuple[int, int]]:
        """[start, stop) of each call."""
        return ((start, min(start + self.high, rows)) for start in range(0, rows, self.high))


# Widest first. The last always holds: every call has the same shape.
CANDIDATES = (*(RowRange(low, high) for high in (128, 32) for low in (1, 2, 4, 8, 16)), RowRange(16, 16))


def cancelling(rows: int, inner: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """x [rows, K] and w [64, K] whose exact products sum to zero: each term has a partner of opposite sign."""
    half = inner // 2
    x = torch.randn(rows, inner, generator=generator)
    w = torch.randn(64, inner, generator=generator)
    x[:, half : 2 * half] = x[:, :half]
    w[:, half : 2 * half] = -w[:, :half]
    order = torch.randperm(inner, generator=generator)
    return x[:, order].to(dtype).contiguous(), w[:, order].to(dtype).contiguous()


def probe(apply: Callable[[Tensor], Tensor], x: Tensor, most: int) -> RowRange:
    """The widest range of at most `most` rows in which `apply` gives each row of x [>= most, K] the same bits."""
    for candidate in (c for c in CANDIDATES[:-1] if c.high <= most):
        whole = apply(x[: candidate.high])
        if all(
            torch.equal(apply(x[start : start + rows])[:rows], whole[start : start + rows])
            for rows in PROBED
            if candidate.low <= rows <= candidate.high
            for start in {0, min(3, candidate.high - rows)}
        ):
            return candidate
    return CANDIDATES[-1]


def elementwise_slices(num_rows: int, width: int, threads: int) -> Iterator[tuple[int, int]]:
    """[start, stop) of the calls in which torch gives each row of an elementwise op [rows, width] the same bits.

    torch cuts a large call into equal parts, one for each thread; what a part has beyond whole vectors goes through
    other code, whose exp and tanh round otherwise. So a part must end with a row, or whole vectors into one.
    """
    is_divisible = _ends_well(1, width, threads)
    start = 0
    while start < num_rows:
        rows = num_rows - start if is_divisible else 1
        while rows > 1 and not _ends_well(rows, width, threads):
            rows -= 1
        yield start, start + rows
        start += rows


def _ends_well(rows: int, width: int, threads: int) -> bool:
    """Whether parts end so for every number of parts that torch's ops choose: see GRAIN_SIZE and its GELU kernel."""
    size = rows * width
    for parts in {1} if size <= 16384 else {threads, min(threads, -(-size // 32768))}:
        part = -(-size // parts)
        if part % width and (part % VECTOR or width % VECTOR):
            return False
    return True
