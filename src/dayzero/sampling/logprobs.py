"""Raw model log-probabilities: of chosen tokens or of a prompt's, with rank and likeliest alternatives.

Raw means before penalties, biases, temperature and truncation. `log_softmax` reduces a row in one thread, so a row's
bits do not depend on its companions (a sum or logsumexp over the vocabulary would be split over threads); ranks are
counts of larger logits, and the order among equals is decided here, not by a sort's.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dayzero.core.events import Logprob

Floats = NDArray[np.float32]

_SLICE_ROWS = 32  # bounds the copy of the logits


def logprobs(logits: torch.Tensor, tokens: Sequence[int], num_top: Sequence[int]) -> list[Logprob]:
    """One entry per row: the log-probability of tokens[i] under row i and its num_top[i] alternatives.

    logits  [N, V] float32, on the CPU; rows finite or -inf, each with a finite maximum
    """
    assert logits.dtype == torch.float32, logits.dtype
    assert len(logits) == len(tokens) == len(num_top), (logits.shape, len(tokens), len(num_top))
    result: list[Logprob] = []
    for start in range(0, len(tokens), _SLICE_ROWS):
        rows = slice(start, start + _SLICE_ROWS)
        result += _logprobs(logits[rows], tokens[rows], num_top[rows])
    return result


def _logprobs(logits: torch.Tensor, tokens: Sequence[int], num_top: Sequence[int]) -> list[Logprob]:
    at = torch.tensor(tokens).unsqueeze(1)
    ranks: list[int] = ((logits > logits.gather(1, at)).sum(-1) + 1).tolist()
    most = min(max(num_top), logits.shape[1])
    falling = logits.topk(most).values.numpy()  # its order among equals is open, so only values are read
    values = torch.log_softmax(logits, -1)
    chosen: list[float] = values.gather(1, at).squeeze(1).tolist()
    return [
        Logprob(token, chosen[i], ranks[i], _top(logits[i].numpy(), values[i].numpy(), falling[i, :count]))
        for i, (token, count) in enumerate(zip(tokens, num_top, strict=True))
    ]


def _top(logits: Floats, values: Floats, falling: Floats) -> tuple[tuple[int, float], ...]:
    """The likeliest tokens of a row, as many as `falling`, which are their logits; equals by rising id."""
    if len(falling) == 0:
        return ()
    ids = np.flatnonzero(logits >= falling[-1])
    ids = ids[np.argsort(-logits[ids], kind="stable")][: len(falling)]
    return tuple(zip(ids.tolist(), values[ids].tolist(), strict=True))
