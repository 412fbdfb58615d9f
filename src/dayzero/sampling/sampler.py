"""A token per row: greedy, or Gumbel-argmax over the tokens that survive temperature, top-k, top-p and min-p.

The rules are those of `core.sampling.SamplingParams`; `sampling.reference` spells them out, and the token chosen here
is always the one chosen there. It depends on the row's logits and its `Row` alone: torch only takes maxima, which are
exact; all else is numpy, a row at a time or element by element.

Knows a grammar as a mask only, and nothing of stop strings or when a request ends.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dayzero.core.sampling import SamplingParams
from dayzero.sampling import noise
from dayzero.sampling.penalties import Allowed, forbid, has_penalties, penalize
from dayzero.sampling.survivors import GONE_NATS, Floats, Ids, Logits, Scaled, survivors, truncates

NOT_FINITE = -1

_GATHER_RATIO = 64  # below 1 / 64 of a row, scattered noise is cheaper than the row's
_HEAD_NATS = 6.0
_HEAD_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """What the next token of one request depends on beside its logits.

    allowed  what a grammar lets through, [ceil(V / 32)]: bit i % 32 of word i // 32 for token i
    """

    params: SamplingParams
    prompt: Sequence[int]
    output: Sequence[int]
    choice: int = 0
    attempt: int = 0
    eos_token_ids: Sequence[int] = ()
    allowed: Allowed | None = None

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
    tokens = [NOT_FINITE] * len(rows)
    greedy = [i for i, row in enumerate(rows) if row.params.is_greedy]
    for i, token in zip(greedy, _likeliest(logits if len(greedy) == len(rows) else logits[greedy]), strict=True):
        tokens[i] = token
    drawn = [i for i, row in enumerate(rows) if not row.params.is_greedy]
    host = logits.contiguous().numpy()
    for i, token in zip(drawn, _draw([host[i] for i in drawn], [rows[i] for i in drawn]), strict=True):
        tokens[i] = token
    return tokens


def _penalized(logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
    """The same tensor if no row asks for a penalty or has a mask, else a copy."""
    edited = [i for i, row in enumerate(rows) if row.allowed is not None or has_penalties(row.params, len(row.output))]
    if not edited:
        return logits
    logits = logits.clone(memory_format=torch.contiguous_format)
    for i in edited:
        row, x = rows[i], logits[i].numpy()
        penalize(x, row.params, row.prompt, row.output, row.eos_token_ids, row.allowed)
        if row.allowed is not None:
            forbid(x, row.allowed)
    return logits


def _likeliest(logits: torch.Tensor) -> list[int]:
    """The lowest id among the largest logits of each row."""
    if len(logits) == 0:
        return []
    rows = logits.contiguous().numpy()
    indices = rows.argmax(-1)  # the first among equals; a NaN is larger than anything
    maxima = rows[np.arange(len(rows)), indices]
    tokens: list[int] = np.where(np.isfinite(maxima), indices, NOT_FINITE).tolist()
    return tokens


@np.errstate(over="ignore", invalid="ignore")  # logits may be -inf or NaN, and a temperature as small as floats get
def _draw(logits: Sequence[Logits], rows: Sequence[Row]) -> list[int]:
    """A token of each row [V]. Rows with few survivors share one computation of their noise."""
    tokens = [NOT_FINITE] * len(rows)
    few: list[int] = []
    candidates: list[tuple[Ids, Floats]] = []
    for i, (x, row) in enumerate(zip(logits, rows, strict=True)):
        scale = Scaled(x, float(x.max()), row.params.temperature)
        if not math.isfinite(scale.best):
            continue
        if not truncates(row.params, len(x)):
            tokens[i] = _draw_of_all(scale, row.draw)
            continue
        ids, log_weights = survivors(scale, row.params)
        if len(ids) * _GATHER_RATIO > len(x):
            raw = noise.raw_row(row.draw, len(x))
            tokens[i], _ = _winner(ids, log_weights, raw[ids])
        else:
            few.append(i)
            candidates.append((ids, log_weights))
    for i, token in zip(few, _draw_of_few(candidates, [rows[i].draw for i in few]), strict=True):
        tokens[i] = token
    return tokens


def _draw_of_few(candidates: Sequence[tuple[Ids, Floats]], draws: Sequence[noise.Draw]) -> list[int]:
    """A token of each of several short lists of ids and log-weights."""
    if not candidates:
        return []
    counts = [len(ids) for ids, _ in candidates]
    owners = np.repeat(np.arange(len(counts)), counts)
    scores = noise.gumbel(noise.raw_at(draws, owners, np.concatenate([ids for ids, _ in candidates])))
    scores += np.concatenate([log_weights for _, log_weights in candidates])
    ends = itertools.accumulate(counts)
    return [int(ids[scores[end - len(ids) : end].argmax()]) for end, (ids, _) in zip(ends, candidates, strict=True)]


def _draw_of_all(scale: Scaled, draw: noise.Draw) -> int:
    """A token of a row that nothing truncates, without making floats of all its noise.

    The best score of the likely tokens, the head, is a bar for the rest: less likely than the head's last one, a token
    needs more noise than the bar's distance from there, and random bits are compared with one integer for that.
    """
    logits = scale.logits
    raw = noise.raw_row(draw, len(logits))
    head_least = scale.logit_below(_HEAD_NATS)
    head = (logits >= head_least).nonzero()[0]
    log_weight_of_rest = scale.log_weight(head_least)
    if len(head) > _HEAD_TOKENS:  # nearly flat: any thousand tokens set a good bar
        head, log_weight_of_rest = head[:_HEAD_TOKENS], 0.0
    token, bar = _winner(head, scale.log_weights(head), raw[head])
    needed = bar - log_weight_of_rest - 1e-9  # more than the roundings in a score
    rest = (raw >= noise.least_raw(needed)).nonzero()[0]
    if len(rest) == 0:
        return token
    rival, score = _winner(rest, scale.log_weights(rest), raw[rest])
    return rival if score > bar else min(token, rival) if score == bar else token


def _winner(ids: Ids, log_weights: Floats, raw: noise.UInts) -> tuple[int, float]:
    """The token with the largest log-weight + noise, the first one (the lowest id) among equals; and that score."""
    scores = noise.gumbel(raw)
    scores += log_weights
    scores[log_weights < -GONE_NATS] = -np.inf
    winner = int(scores.argmax())
    return int(ids[winner]), float(scores[winner])
