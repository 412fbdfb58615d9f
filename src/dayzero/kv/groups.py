"""Cache groups: layers that keep their KV alike share one block table.

A model declares its groups; a `Step` holds one block table for each.
"""

import enum
from dataclasses import dataclass


class CacheKind(enum.Enum):
    """Which positions a layer of the group still reads."""

    FULL = "full"  # all of them
    WINDOW = "window"  # the last `window`, itself included; blocks wholly before are freed


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """`layers` are the model's layer indices in this group. `bytes_per_token` covers K and V of all of them."""

    kind: CacheKind
    layers: tuple[int, ...]
    bytes_per_token: int
    window: int | None = None

    def __post_init__(self) -> None:
        assert (self.kind is CacheKind.WINDOW) == (self.window is not None), (self.kind, self.window)

    def first_needed(self, position: int) -> int:
        """The first position that the token at `position` reads."""
        return 0 if self.window is None else max(0, position - self.window + 1)
