"""Time as a value that is passed in, so that tests own it.

Monotonic times never cross a process: send durations.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds."""

    def now_s(self) -> float: ...


class SystemClock:
    """The machine's monotonic clock."""

    def now_s(self) -> float:
        return time.monotonic()


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, seconds
        self._now_s += seconds
