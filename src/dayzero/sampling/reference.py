"""The slow and obvious sampler: one row at a time, all of its vocabulary, in float64. The oracle of `sampler`.

Shares with it only the random bits and the values they read: a logit after penalties is a float32 number, and the noise
is `noise.gumbel`. Needs V log V time and a float for every token; never used to serve.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dayzero.sampling import noise
from dayzero.sampling.sampler import NOT_FINITE, Row
from dayzero.sampling.survivors import GONE_NATS

Logits = NDArray[np.float32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def sample_row(logits: Logits, row: Row) -> int:
    """The next token id of one row [V], or `NOT_FINITE`."""
    logits = penalized(logits, row)
    best = logits.max()
    if not np.isfinite(best):
        return NOT_FINITE
    if row.params.is_greedy:
        return int(np.argmax(logits))
    with np.errstate(over="ignore"):
        log_weights = (logits.astype(np.float64) - float(best)) / row.params.temperature
    scores = log_weights + noise.gumbel(noise.raw_row(row.draw, len(logits)))
    return int(np.argmax(np.where(surviving(log_weights, row), scores, -np.inf)))


def penalized(logits: Logits, row: Row) -> Logits:
    """A copy with penalties, biases, the mask of early ends, the grammar's and bans, token by token."""
    params = row.params
    result = logits.copy()
    for token in {*row.prompt, *row.output, *params.logit_bias}:
        value = float(logits[token])
        if params.repetition_penalty != 1.0 and (token in row.prompt or token in row.output):
            value = value / params.repetition_penalty if value > 0 else value * params.repetition_penalty
        if token in row.output:
            value -= params.frequency_penalty * list(row.output).count(token)
            value -= params.presence_penalty
        value += params.logit_bias.get(token, 0.0)
        with np.errstate(over="ignore"):
            result[token] = np.float64(value).astype(np.float32)
    if len(row.output) < params.min_tokens:
        result[list(params.stop_token_ids)] = -np.inf
        if not params.ignore_eos:
            result[list(row.eos_token_ids)] = -np.inf
    if row.allowed is not None:
        for token in range(len(result)):
            if not int(row.allowed[token // 32]) >> token % 32 & 1:
                result[token] = -np.inf
    return _without_banned(result, row)


def _without_banned(logits: Logits, row: Row) -> Logits:
    others = logits.copy()
    if len(row.output) < row.params.banned_until:
        others[list(row.params.banned_tokens)] = -np.inf
    return others if (others > -np.inf).any() else logits


def surviving(log_weights: Floats, row: Row) -> Mask:
    """[V] the tokens that may be drawn, given (logit - best logit) / temperature."""
    params = row.params
    alive = log_weights >= -GONE_NATS
    if params.top_k > 0:
        falling = np.sort(log_weights[alive])[::-1]
        if params.top_k < len(falling):
            alive &= log_weights >= falling[params.top_k - 1]
    if params.top_p < 1.0:
        rising = np.sort(-log_weights[alive])
        mass = np.cumsum(np.exp(-rising))
        num_likelier = np.searchsorted(rising, -log_weights)  # of each token
        mass_likelier = np.concatenate(([0.0], mass))[num_likelier]
        alive &= mass_likelier < params.top_p * mass[-1]
    if params.min_p > 0.0:
        alive &= log_weights >= math.log(params.min_p)
    return alive
