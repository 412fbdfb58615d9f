"""Which tokens of a row may be drawn: temperature, top-k, top-p and min-p, found without sorting the row.

Every rule keeps a token and whatever is likelier, ties together, so the survivors are the tokens at or above one
log-weight, and the order among equals never matters. They are looked for near the best token, and further down only if
the rules reach there. Top-p puts tokens into bins and sorts only the bin where the mass is reached; sums taken in
another order, or in float32, have a known error, and where that leaves a doubt everything is sorted and summed as
`sampling.reference` does. So the survivors are always exactly the reference's.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dayzero.core.sampling import SamplingParams

Logits = NDArray[np.float32]
Floats = NDArray[np.float64]
Ids = NDArray[np.intp]

GONE_NATS = 40.0  # a token further below the best, after temperature, is never drawn

_WINDOWS_NATS = (8.0, 12.0, 16.0, GONE_NATS + 1)  # the last holds all that is not gone, whatever float32 rounds
_SORTED_TOKENS = 128  # no bins for fewer
_BINS_PER_NAT = 16
_SUM_ERROR_RATIO = 1e-9  # of a float64 sum in any order: 2^18 roundings are 3e-11


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of weights, as a share of which the true one (added up from the likeliest down) is off by less."""

    value: float
    error_ratio: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """One row [V] of finite or -inf logits, and how it is scaled: weights are relative to the best token's."""

    logits: Logits
    best: float  # the largest logit; finite
    temperature: float  # above 0

    def logit_below(self, nats: float) -> np.float32:
        """The logit that lies so far below the best one, in float32."""
        return np.float32(self.best - nats * self.temperature)

    def log_weight(self, logit: np.float32) -> float:
        return (float(logit) - self.best) / self.temperature

    def log_weights(self, ids: Ids) -> Floats:
        """Float64, 0 for the best; never larger for a smaller logit."""
        log_weights = self.logits[ids].astype(np.float64)
        log_weights -= self.best
        log_weights /= self.temperature
        return log_weights

    def rough_total(self) -> Total:
        """The sum of all weights in float32; NaN if that cannot hold 1 / temperature.

        Difference, 1 / temperature and product round a log-weight by 3 x 2^-24 of itself, and log-weights are below
        ln V on the mean of their weights; exp errs by 4 ulp, numpy's pairwise sum by 30 roundings: 4.3e-6 at V = 2^18.
        """
        weights = self.logits - np.float32(self.best)
        weights *= np.float32(1 / self.temperature)
        np.exp(weights, out=weights)
        return Total(float(weights.sum()), 5e-6)

    def total(self) -> Total:
        """The sum of all weights in float64."""
        weights = self.logits.astype(np.float64)
        weights -= self.best
        weights /= self.temperature
        np.exp(weights, out=weights)
        return Total(float(weights.sum()), _SUM_ERROR_RATIO)


_UNKNOWN = Total(math.nan, math.nan)


def truncates(params: SamplingParams, vocab_size: int) -> bool:
    """Whether top-k, top-p or min-p is in use; if not, all tokens that are not gone survive."""
    return 0 < params.top_k < vocab_size or params.top_p < 1.0 or params.min_p > 0.0


def survivors(row: Scaled, params: SamplingParams) -> tuple[Ids, Floats]:
    """The tokens that may be drawn, by rising id, and their log-weights."""
    top_k = params.top_k if params.top_k < len(row.logits) else 0
    needs_total = top_k == 0 and params.top_p < 1.0
    total = row.rough_total() if needs_total else _UNKNOWN
    for nats in _WINDOWS_NATS:
        bottom = row.logit_below(nats)
        ids = (row.logits >= bottom).nonzero()[0]
        log_weights = row.log_weights(ids)
        most_below = row.log_weight(bottom)  # of any token that is not among these
        is_all = nats > GONE_NATS or most_below < -GONE_NATS
        if is_all:
            alive = log_weights >= -GONE_NATS
            ids, log_weights = ids[alive], log_weights[alive]
        least = _least(log_weights, params, top_k, None if is_all else total)
        if least is not None and (is_all or least > most_below):
            kept = (log_weights >= least).nonzero()[0]
            return ids[kept], log_weights[kept]
        if needs_total and nats == _WINDOWS_NATS[0]:
            total = row.total()
    raise AssertionError("no survivors among all that is not gone")


def _least(log_weights: Floats, params: SamplingParams, top_k: int, total: Total | None) -> float | None:
    """The least log-weight that survives, given the largest of a row; None if it is not surely among them.

    total is that of the row, or None if nothing below these is alive.
    """
    least = -GONE_NATS
    if top_k > 0:
        cut = len(log_weights) - top_k
        if cut < 0 and total is not None:
            return None
        if cut >= 0:
            least = float(np.partition(log_weights, cut)[cut])
            log_weights = log_weights[log_weights >= least]
        total = None
    if params.top_p < 1.0:
        found = _least_in_top_p(log_weights, params.top_p, total)
        if found is None:
            return None
        least = found
    return max(least, math.log(params.min_p)) if params.min_p > 0.0 else least


def _least_in_top_p(log_weights: Floats, top_p: float, total: Total | None) -> float | None:
    """The least of the log-weights with less than top_p of the mass above it; None if it is not surely among them.

    total is that of the row, or None if these are all the tokens there are.
    """
    weights = np.exp(log_weights)
    known = Total(float(weights.sum()), _SUM_ERROR_RATIO) if total is None else total
    target, error = top_p * known.value, known.error_ratio + _SUM_ERROR_RATIO
    above, falling = _around(target, log_weights, weights)
    likelier = above + np.concatenate(([0.0], np.exp(falling).cumsum()))
    fewest, most = likelier.searchsorted((target * (1 - error), target * (1 + error)))
    if 0 < fewest == most <= len(falling):
        return float(falling[fewest - 1])
    return _least_by_sorting(log_weights, top_p) if total is None else None


def _around(target: float, log_weights: Floats, weights: Floats) -> tuple[float, Floats]:
    """The falling log-weights among which the mass reaches `target`, and the mass above them."""
    if len(log_weights) <= _SORTED_TOKENS:
        return 0.0, -np.sort(-log_weights)
    bins = (log_weights * -_BINS_PER_NAT).astype(np.intp)  # a likelier token is never in a later bin
    mass = np.bincount(bins, weights).cumsum()
    last = int(mass.searchsorted(target))
    above = float(mass[last - 1]) if last > 0 else 0.0
    return above, -np.sort(-log_weights[bins == last])


def _least_by_sorting(log_weights: Floats, top_p: float) -> float:
    """The definition: masses are added up from the likeliest down, one after the other."""
    falling = -np.sort(-log_weights)
    mass = np.exp(falling).cumsum()
    num_kept = np.concatenate(([0.0], mass[:-1])).searchsorted(top_p * mass[-1])
    return float(falling[num_kept - 1])
