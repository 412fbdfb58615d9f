"""Which rows attend together, and over which stretch of KV: plain arithmetic, no tensors.

Row invariance by construction: the stretch of KV that a row reads is a function of the row's own position alone.
Positions are cut into *buckets*; every row of a bucket attends over the same [kv_start, kv_stop), masked to what it
may see. How a kernel splits and orders that stretch then never depends on the request's companions, on the chunk that
the row came in, or on the length that the request has reached. What remains to be equal is the same stretch at another
number of rows, which `rows` probes.

    positions   0 ........ 64 ....... 128 ....... 192 ...        buckets
    row at 130                          |--- bucket [128, 192): reads [0, 192), masked to [0, 130]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KV_ALIGN = 64  # a multiple of every block size


@dataclass(frozen=True, slots=True)
class HeadLayout:
    """What attention must know of a model: H, G and D, and whether a token sees those before it alone."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    is_causal: bool = True

    @property
    def queries_per_kv(self) -> int:
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class Bucket:
    """Positions [start, stop). Its rows read KV of [kv_start, stop)."""

    start: int
    stop: int
    kv_start: int


def bucket(position: int, window: int | None) -> Bucket:
    """The bucket of a position. Buckets grow with the position, so that a batch of long requests still shares calls.

    Their padding costs at most 64 keys below position 512, and an eighth to a half of the length above.
    """
    size = 64 if position < 512 else 256 if position < 2048 else 512
    start = position // size * size
    kv_start = 0 if window is None else max(0, (start - window + 1) // KV_ALIGN * KV_ALIGN)
    return Bucket(start, start + size, kv_start)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows [row, row + length) of the step: consecutive tokens of one request within one bucket."""

    request: int
    row: int
    position: int
    length: int
    bucket: Bucket


def segments(query_starts: Sequence[int], first_positions: Sequence[int], window: int | None) -> Iterator[Segment]:
    """Cut each request's rows at the borders of buckets."""
    for request, first in enumerate(first_positions):
        row, stop = query_starts[request], query_starts[request + 1]
        position = first
        while row < stop:
            home = bucket(position, window)
            length = min(stop - row, home.stop - position)
            yield Segment(request, row, position, length, home)
            row += length
            position += length


def keys_seen(place: int, rows: int, window: int | None = None, tree: Sequence[int] = ()) -> list[list[int]]:
    """The places of the keys that each row of a request sees, in the order in which they count (native/step.hpp).

    place   where the first row's own key lies: so many keys are before it
    window  a row sees the last so many, its own included; None: all
    tree    of the last rows, which of these rows each sees: its ancestors and itself, as bits
    """
    first_tree = place + rows - len(tree)
    chains = [range(own + 1) for own in range(place, first_tree)]
    branches = [[*range(first_tree), *(first_tree + i for i in range(len(tree)) if mask >> i & 1)] for mask in tree]
    return [list(keys if window is None else keys[-window:]) for keys in (*chains, *branches)]
