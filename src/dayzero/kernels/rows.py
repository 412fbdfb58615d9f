"""How many rows a call may have so that the bits of a row do not depend on its companions.

Products: a library picks its loops by the number of rows, and with them the order in which it adds. Where the order
changes is a property of processor, library version and shape, so it is probed at start, with inputs whose exact sum is
zero: what comes out is nothing but the rounding of that order, and another order shows in nearly every element.
So a call has one of a few *heights*, all of which were probed: rows are padded up to one and cut at the tallest.

Elementwise ops: see `elementwise_slices`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

VECTOR = 64  # elements of the longest unrolled vector: two of 32 bfloat16
# Padding adds half of the rows at most, beyond the first few.
CANDIDATES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
TALLEST = (128, 32)  # tried in turn
LOW = 16  # all candidates from here on must agree, or many steps would mostly compute padding


@dataclass(frozen=True, slots=True)
class Heights:
    """The numbers of rows that a call may have, ascending: a row has the same bits in all of them."""

    allowed: tuple[int, ...]

    def fit(self, rows: int) -> int:
        """The least height for this many rows, at most the tallest."""
        return next(height for height in self.allowed if height >= rows)

    def slices(self, rows: int) -> Iterator[tuple[int, int]]:
        """[start, stop) of each call."""
        tallest = self.allowed[-1]
        for start in range(0, rows, tallest):
            yield start, min(start + tallest, rows)


def cancelling(rows: int, inner: int, dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """x [rows, K] and w [64, K] whose exact products sum to zero: each term has a partner of opposite sign."""
    half = inner // 2
    x = torch.randn(rows, inner, generator=generator)
    w = torch.randn(64, inner, generator=generator)
    x[:, half : 2 * half] = x[:, :half]
    w[:, half : 2 * half] = -w[:, :half]
    order = torch.randperm(inner, generator=generator)
    return x[:, order].to(dtype).contiguous(), w[:, order].to(dtype).contiguous()


def probe(apply: Callable[[Tensor], Tensor], x: Tensor, most: int) -> Heights:
    """Heights of at most `most` rows in which `apply` gives each row of x [>= most, K] the same bits at any place.

    Where no set will do, every call has the same height.
    """
    for tallest in (height for height in TALLEST if height <= most):
        whole = apply(x[:tallest])
        allowed = tuple(
            height
            for height in CANDIDATES
            if height <= tallest
            and torch.equal(apply(x[:height]), whole[:height])
            and torch.equal(apply(x[tallest - height : tallest].flip(0)), whole[tallest - height :].flip(0))
        )
        if {height for height in CANDIDATES if LOW <= height <= tallest} <= set(allowed):
            return Heights(allowed)
    return Heights((LOW,))


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
