"""Which tokens of a row may be drawn: top-k, top-p and min-p, found without sorting the row.

Every rule keeps a token and whatever is likelier, ties together, so what survives is the logits at or above one *cut*,
and the order among equals never matters. The cut is looked for among the logits near the best one, further down only if
it is not there. Top-p needs the sum of all weights: float32 gives it within a known error, and where that leaves a
doubt all that is not gone is sorted and summed in float64. So the cut is exactly that of `sampling.reference`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dayzero.core.sampling import SamplingParams

Logits = NDArray[np.float32]
Floats = NDArray[np.float64]

GONE_NATS = 40.0  # a token further below the best, after temperature, is never drawn

_WINDOWS_NATS = (8.0, 16.0, GONE_NATS + 1)  # the last holds all that is not gone, whatever float32 rounds
# Of `_rough_total`: difference, 1 / temperature and product round by 2^-24 of at most 40 nats each, exp errs by up to
# 4 ulp and numpy's pairwise sum by some 30 roundings: 1e-5 together.
_TOTAL_ERROR_RATIO = 2e-5


@dataclass(frozen=True, slots=True)
class Scaled:
    """One row [V] of finite or -inf logits, and how it is scaled: weights are relative to the best token's."""

    logits: Logits
    best: float  # the largest logit; finite
    temperature: float  # above 0

    def logit_below(self, nats: float) -> np.float32:
        """The logit that lies so far below the best one, in float32."""
        return np.float32(self.best - nats * self.temperature)

    def log_weights(self, logits: Logits) -> Floats:
        """Float64, 0 for the best; never larger for a smaller logit."""
        log_weights: Floats = (logits.astype(np.float64) - self.best) / self.temperature
        return log_weights


def cut(row: Scaled, params: SamplingParams) -> np.float32 | None:
    """The least logit that survives; None if neither top-k nor top-p nor min-p is in use."""
    top_k = params.top_k if params.top_k < len(row.logits) else 0
    if top_k == 0 and params.top_p == 1.0 and params.min_p == 0.0:
        return None
    rough_total = _rough_total(row) if top_k == 0 and params.top_p < 1.0 else math.nan
    for nats in _WINDOWS_NATS:
        logits = row.logits[np.flatnonzero(row.logits >= row.logit_below(nats))]
        logits = np.ascontiguousarray(np.sort(logits)[::-1])
        log_weights = row.log_weights(logits)
        num_alive = int(np.count_nonzero(log_weights >= -GONE_NATS))
        is_all = nats > GONE_NATS or num_alive < len(logits)
        num_kept = _num_kept(
            logits[:num_alive], log_weights[:num_alive], params, top_k, None if is_all else rough_total
        )
        if num_kept is not None:
            return np.float32(logits[num_kept - 1])
    raise AssertionError("no cut among all that is not gone")


def _rough_total(row: Scaled) -> float:
    """The sum of all weights, within `_TOTAL_ERROR_RATIO`; NaN if float32 cannot hold 1 / temperature."""
    weights = row.logits - np.float32(row.best)
    weights *= np.float32(1 / row.temperature)
    np.exp(weights, out=weights)
    return float(weights.sum())


def _num_kept(
    logits: Logits, log_weights: Floats, params: SamplingParams, top_k: int, rough_total: float | None
) -> int | None:
    """How many of the largest logits, which fall, survive; None if that depends on what lies below them.

    rough_total is None if nothing below them is alive. Of equals at the end, some may be left out.
    """
    is_all = rough_total is None
    count = len(logits)
    if top_k > 0:
        if top_k > count and not is_all:
            return None
        if top_k <= count:
            count = int(np.count_nonzero(logits >= logits[top_k - 1]))
        is_all = True
    if params.top_p < 1.0:
        kept = _num_in_top_p(log_weights[:count], params.top_p, None if is_all else rough_total)
        if kept is None:
            return None
        count, is_all = kept, True
    if params.min_p > 0.0:
        kept = int(np.count_nonzero(log_weights[:count] >= math.log(params.min_p)))
        if kept == count and not is_all:
            return None
        count = kept
    return count


def _num_in_top_p(log_weights: Floats, top_p: float, rough_total: float | None) -> int | None:
    """How many of the tokens with these falling weights have less than top_p of the mass above them; None if unsure.

    rough_total is None if these are all the tokens there are.
    """
    mass = np.cumsum(np.exp(log_weights))  # one after the other, so the sums do not depend on how many follow
    likelier = np.concatenate(([0.0], mass[:-1]))
    if rough_total is None:
        return int(np.searchsorted(likelier, top_p * mass[-1]))
    low = rough_total * (1 - _TOTAL_ERROR_RATIO)
    high = rough_total * (1 + _TOTAL_ERROR_RATIO)
    fewest, most = np.searchsorted(likelier, (top_p * low, top_p * high))
    return int(fewest) if fewest == most < len(likelier) else None
