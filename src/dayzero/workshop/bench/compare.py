"""The reports of two targets over the same rounds -> the ratio of each measure, with its interval. Pure.

The unit is the round: requests within one share their machine's mood, so they are no independent samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dayzero.workshop.bench.measures import Report

CONFIDENCE = 0.95
MIN_ROUNDS_FOR_INTERVAL = 4  # resamples of fewer are all but the same few values
_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One measure on both sides. `ratio`: the median over rounds of B / A; `low`, `high`: its bootstrap interval."""

    name: str
    higher_is_better: bool
    a: tuple[float, ...]
    b: tuple[float, ...]
    ratio: float
    low: float | None
    high: float | None

    @property
    def better(self) -> str | None:
        """ "A" or "B"; None: the interval holds 1, or there is none."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return None
        return "B" if (self.low > 1) == self.higher_is_better else "A"


def headline(report: Report) -> dict[str, float]:
    """The numbers of a run that are worth a ratio."""
    numbers = {name: report.rates[name] for name in ("output_tokens_per_s", "requests_per_s")}
    if report.goodput_per_s is not None:
        numbers["goodput_per_s"] = report.goodput_per_s
    for name in ("ttft_s", "itl_s", "chunk_gap_s", "tpot_s", "e2e_s"):
        if distribution := report.latencies.get(name):
            numbers |= {f"{name} mean": distribution.mean}
            numbers |= {f"{name} p{p}": distribution.percentile(p) for p in (50, 99)}
    return numbers


def compare(a: Sequence[Report], b: Sequence[Report]) -> list[Ratio]:
    """Ratios of all measures that both sides have in at least one round. `a[i]` and `b[i]` are one round."""
    rounds = [(headline(left), headline(right)) for left, right in zip(a, b, strict=True)]
    names = dict.fromkeys(name for left, _ in rounds for name in left)
    ratios = (ratio_of(name, rounds) for name in names)
    return [ratio for ratio in ratios if ratio]


def ratio_of(name: str, rounds: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> Ratio | None:
    """The ratio of one measure over the rounds in which both sides have it and it is above zero."""
    pairs = [(left.get(name, 0.0), right.get(name, 0.0)) for left, right in rounds]
    pairs = [(left, right) for left, right in pairs if left > 0 and right > 0]
    if not pairs:
        return None
    ratios = np.array([right / left for left, right in pairs])
    low, high = bootstrap_median(ratios) if len(pairs) >= MIN_ROUNDS_FOR_INTERVAL else (None, None)
    return Ratio(
        name=name,
        higher_is_better=name.endswith("_per_s"),
        a=tuple(left for left, _ in pairs),
        b=tuple(right for _, right in pairs),
        ratio=float(np.median(ratios)),
        low=low,
        high=high,
    )


def bootstrap_median(values: "np.typing.NDArray[np.float64]") -> tuple[float, float]:
    """The percentile bootstrap interval of the median, with a fixed seed: the same rounds give the same interval."""
    chosen = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
    medians = np.median(values[chosen], axis=1)
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(medians, tail)), float(np.quantile(medians, 1 - tail))
