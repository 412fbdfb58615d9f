"""How many rows a matrix product may have so that the bits of a row do not depend on its companions.

A library picks its loops by the number of rows, and with them the order in which it adds. Where the order changes is
a property of processor, library version and shape, so it is probed at start, with inputs whose exact sum is zero: what
comes out is nothing but the rounding of that order, and another order shows in nearly every element.
Source of the recipe: rows are padded up to `low` and cut into slices of at most `high`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

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
