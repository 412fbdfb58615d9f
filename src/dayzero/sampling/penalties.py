"""What a request does to its logits before anything is drawn: penalties, biases, early ends, bans, a mask.

Counts come from prompt and output as they stand, so a request that was preempted or resumed is treated alike.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dayzero.core.sampling import SamplingParams

Logits = NDArray[np.float32]
Ids = NDArray[np.intp]
Allowed = NDArray[np.int32]


def has_penalties(params: SamplingParams, num_output: int) -> bool:
    """Whether `penalize` could change anything."""
    return _has_counts(params) or bool(params.logit_bias) or num_output < max(params.min_tokens, params.banned_until)


def penalize(
    logits: Logits,
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
    eos_token_ids: Sequence[int],
    allowed: Allowed | None,
) -> None:
    """Edit one row [V] in place. Token ids that the row does not have are passed over.

    In this order: the repetition penalty divides a positive logit and multiplies another, once per token however often
    it occurs (Keskar et al. 2019, CTRL); frequency times occurrences, then presence, are subtracted; biases are added.
    A logit is computed in float64 and rounded to float32 once. Before `min_tokens`, all that would end the request
    becomes -inf; with `ignore_eos` an end-of-sequence token ends nothing and stays. Before `banned_until`, so does what
    is banned, unless no token that `allowed` lets through would be left.
    """
    vocab_size = len(logits)
    output_ids = _ids(output if _has_counts(params) else (), vocab_size)
    seen = np.unique(np.concatenate([_ids(prompt, vocab_size), output_ids])) if params.repetition_penalty != 1 else None
    biases = {token: bias for token, bias in params.logit_bias.items() if 0 <= token < vocab_size}
    biased = _ids(biases, vocab_size)

    touched = np.unique(np.concatenate([output_ids if seen is None else seen, biased]))
    values = logits[touched].astype(np.float64)
    if seen is not None:
        at = np.searchsorted(touched, seen)
        penalty = params.repetition_penalty
        values[at] = np.where(values[at] > 0, values[at] / penalty, values[at] * penalty)
    tokens, counts = np.unique(output_ids, return_counts=True)
    at = np.searchsorted(touched, tokens)
    values[at] -= params.frequency_penalty * counts
    values[at] -= params.presence_penalty
    values[np.searchsorted(touched, biased)] += list(biases.values())
    with np.errstate(over="ignore"):  # beyond float32 it becomes infinite, and the sampler refuses the row
        logits[touched] = values.astype(np.float32)

    if len(output) < params.min_tokens:
        ends = params.stop_token_ids if params.ignore_eos else (*params.stop_token_ids, *eos_token_ids)
        logits[_ids(ends, vocab_size)] = -np.inf
    if len(output) < params.banned_until:
        _ban(logits, _ids(params.banned_tokens, vocab_size), allowed)


def forbid(logits: Logits, allowed: Allowed) -> None:
    """Make what a grammar's mask does not allow impossible, in place: bit i % 32 of word i // 32 for token i."""
    logits[~_bits(allowed, len(logits))] = -np.inf


def _ban(logits: Logits, banned: Ids, allowed: Allowed | None) -> None:
    before = logits[banned]
    logits[banned] = -np.inf
    is_possible = logits > -np.inf
    if allowed is not None:
        is_possible &= _bits(allowed, len(logits))
    if not is_possible.any():
        logits[banned] = before


def _bits(allowed: Allowed, vocab_size: int) -> NDArray[np.bool_]:
    assert len(allowed) == -(-vocab_size // 32), (len(allowed), vocab_size)
    return np.unpackbits(allowed.view(np.uint8), bitorder="little", count=vocab_size).view(np.bool_)


def _has_counts(params: SamplingParams) -> bool:
    return params.repetition_penalty != 1.0 or params.presence_penalty != 0.0 or params.frequency_penalty != 0.0


def _ids(tokens: Iterable[int], vocab_size: int) -> Ids:
    ids = np.fromiter(tokens, dtype=np.intp)
    return ids[(ids >= 0) & (ids < vocab_size)]
