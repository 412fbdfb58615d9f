"""A token per row: greedy, or Gumbel-argmax over the tokens that survive temperature, top-k, top-p and min-p.

The rules are those of `core.sampling.SamplingParams`; `sampling.reference` spells them out, and the token chosen here
is always the one chosen there. It depends on the row's logits and its `Row` alone: torch only takes maxima, which are
exact; all else is numpy, a row at a time or element by element.

Knows nothing of grammars, stop strings or when a request ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dayzero.core.sampling import SamplingParams
from dayzero.sampling import noise
from dayzero.sampling.penalties import has_penalties, penalize
from dayzero.sampling.survivors import GONE_NATS, Scaled, cut

NOT_FINITE = -1

_GATHER_RATIO = 64  # below 1 / 64 of a row, scattered noise is cheaper than the row's
_HEAD_NATS = 6.0
_HEAD_TOKENS = 4096

Ids = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Row:
    """What the next token of one request depends on beside its logits."""

    params: SamplingParams
    prompt: Sequence[int]
    output: Sequence[int]
    choice: int = 0
    attempt: int = 0
    eos_token_ids: Sequence[int] = ()

    @property
    def draw(self) -> noise.Draw:
        position = len(self.prompt) + len(self.output)
        return noise.Draw(self.params.seed, self.choice, self.attempt, position)


def sample(logits: torch.Tensor, rows: Sequence[Row]) -> list[int]:
    """The next token id of each row, or `NOT_FINITE` where the row has none.

    logits  [N, V] float32, on the CPU; read only

    A row has none if, with penalties and masks applied, it holds a NaN or +inf, or nothing but -inf.
    """
    assert logits.dtype == torch.float32, logits.dtype
    assert logits.ndim == 2, logits.shape
    assert len(logits) == len(rows), (logits.shape, len(rows))
    if not rows:
        return []
    logits = _penalized(logits, rows)
    maxima, indices = logits.max(-1)  # the lowest id among equals; a NaN is larger than anything
    tokens: list[int] = torch.where(maxima.isfinite(), indices, NOT_FINITE).tolist()
    drawn = [i for i, row in enumerate(rows) if not row.params.is_greedy and tokens[i] != NOT_FINITE]
    if drawn:
        host, best = logits.contiguous().numpy(), maxima.tolist()
        scaled = [Scaled(host[i], best[i], rows[i].params.temperature) for i in drawn]
        for i, token in zip(drawn, _draw(scaled, [rows[i] for i in drawn]), strict=True):
            tokens[i] = token
    return tokens


def _penalized(logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
    """The same tensor if no row asks for a penalty, else a copy."""
    penalized = [i for i, row in enumerate(rows) if has_penalties(row.params, len(row.output))]
    if not penalized:
        return logits
    logits = logits.clone(memory_format=torch.contiguous_format)
    for i in penalized:
        row = rows[i]
        penalize(logits[i].numpy(), row.params, row.prompt, row.output, row.eos_token_ids)
    return logits


@np.errstate(over="ignore", invalid="ignore")  # logits may be -inf, and a temperature as small as floats get
def _draw(scaled: Sequence[Scaled], rows: Sequence[Row]) -> list[int]:
    """A token of each row. Rows with few survivors share one computation of their noise."""
    tokens = [NOT_FINITE] * len(rows)
    few: list[int] = []
    survivors: list[Ids] = []
    for i, (row, scale) in enumerate(zip(rows, scaled, strict=True)):
        least = cut(scale, row.params)
        ids = None if least is None else np.flatnonzero(scale.logits >= least)
        if ids is None or len(ids) * _GATHER_RATIO > len(scale.logits):
            tokens[i] = _draw_of_many(scale, least, row.draw)
        else:
            few.append(i)
            survivors.append(ids)
    if few:
        counts = [len(ids) for ids in survivors]
        owners = np.repeat(np.arange(len(few)), counts)
        raw = noise.raw_at([rows[i].draw for i in few], owners, np.concatenate(survivors))
        for i, ids, bits in zip(few, survivors, np.split(raw, np.cumsum(counts)[:-1]), strict=True):
            tokens[i] = int(ids[np.argmax(_scores(scaled[i], ids, bits))])
    return tokens


def _draw_of_many(scale: Scaled, least: np.float32 | None, draw: noise.Draw) -> int:
    """A token of a row of which many survive, without making floats of all its noise.

    The best score of the likely tokens, the head, is a bar for the rest: less likely than the head's last one, a token
    needs more noise than the bar's distance from there, and random bits are compared with one integer for that.
    """
    logits = scale.logits
    raw = noise.raw_row(draw, len(logits))
    if least is None:
        least = scale.logit_below(GONE_NATS + 1)
    head_least = max(least, scale.logit_below(_HEAD_NATS))
    head = np.flatnonzero(logits >= head_least)
    log_weight_of_rest = float(scale.log_weights(np.array([head_least]))[0])
    if len(head) > _HEAD_TOKENS:  # nearly flat: any few thousand tokens set a good bar
        head, log_weight_of_rest = head[:_HEAD_TOKENS], 0.0
    bar = float(_scores(scale, head, raw[head]).max())
    needed = bar - log_weight_of_rest - 1e-9  # less than the roundings in a score
    rest = np.flatnonzero(raw >= noise.least_raw(needed))
    ids = np.union1d(head, rest[logits[rest] >= least])
    return int(ids[np.argmax(_scores(scale, ids, raw[ids]))])


def _scores(scale: Scaled, ids: Ids, raw: noise.UInts) -> NDArray[np.float64]:
    """Log-weight plus noise; the largest is drawn, the first one (the lowest id) among equals."""
    log_weights = scale.log_weights(scale.logits[ids])
    return np.where(log_weights >= -GONE_NATS, log_weights + noise.gumbel(raw), -np.inf)
