"""A median over interleaved repeats, and how sure it is. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dayzero.workshop.bench.compare import MIN_ROUNDS_FOR_INTERVAL, bootstrap_median


@dataclass(frozen=True, slots=True)
class Interval:
    """`low`, `high`: the 95 % bootstrap interval of the median; None of too few repeats."""

    median: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return shown(self.median)
        return f"{shown(self.median)} ({shown(self.low)} to {shown(self.high)})"


def interval(values: Sequence[float]) -> Interval:
    low, high = bootstrap_median(np.array(values)) if len(values) >= MIN_ROUNDS_FOR_INTERVAL else (None, None)
    return Interval(statistics.median(values), low, high)


def ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """Of values that were taken in the same repeats."""
    return interval([a / b for a, b in zip(above, below, strict=True)])


def shown(value: float) -> str:
    """Three figures, and never a power of ten for a large number."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
