"""Hidden states, span by span, to the embedding of a request.

The rows of a mean are added one after the other in float64: neither the spans in which they come nor what shares their
steps can show in a bit of the sum.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dayzero.core.pooling import Pooling

Total = np.ndarray[Any, np.dtype[np.float64]]  # [E], the sum of the rows that were pooled so far
Row = np.ndarray[Any, np.dtype[np.float32]]


def wanted(pooling: Pooling, start: int, length: int, *, is_last: bool) -> range:
    """Which rows of a span count: so many from position `start` on. is_last: it has the last token of its request."""
    if pooling == "cls":
        return range(1 if start == 0 else 0)
    return range(0 if pooling == "mean" else length - int(is_last), length)


def add(total: Total | None, rows_NE: Iterable[Row]) -> Total | None:
    """The sum with these rows behind those before; None while there are none."""
    for row in rows_NE:
        total = row.astype(np.float64) if total is None else total + row
    return total


def embedding(total: Total | None) -> bytes | None:
    """Of unit length, as little-endian float32; None for a sum that has no direction.

    The mean's divisor does not matter. The length is that of an exact sum, which has no order.
    """
    if total is None:
        return None
    length = math.sqrt(math.fsum((total * total).tolist()))
    if not 0.0 < length < math.inf:
        return None
    return (total / length).astype("<f4").tobytes()
