"""Raw model log-probabilities: of chosen tokens or of a prompt's, with rank and likeliest alternatives.

Raw means before penalties, biases, temperature and truncation. `log_softmax` reduces a row in one thread, so a row's
bits do not depend on its companions (a sum or logsumexp over the vocabulary would be split over threads); ranks are
counts, and the order among equals is decided here, not by a sort's.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dayzero.core.events import Logprob

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
        result += _logprobs(torch.log_softmax(logits[rows], -1), tokens[rows], num_top[rows])
    return result


def _logprobs(values: torch.Tensor, tokens: Sequence[int], num_top: Sequence[int]) -> list[Logprob]:
    chosen = values.gather(1, torch.tensor(tokens).unsqueeze(1))
    ranks: list[int] = ((values > chosen).sum(-1) + 1).tolist()
    most = min(max(num_top), values.shape[1])
    falling = values.topk(most).values.numpy()  # its order among equals is open, so only values are read
    host = values.numpy()
    return [
        Logprob(token, logprob, rank, _top(host[i], falling[i, :count]))
        for i, (token, logprob, rank, count) in enumerate(
            zip(tokens, chosen.squeeze(1).tolist(), ranks, num_top, strict=True)
        )
    ]


def _top(values: NDArray[np.float32], falling: NDArray[np.float32]) -> tuple[tuple[int, float], ...]:
    """The likeliest tokens of a row, as many as `falling`, which are their values; equals by rising id."""
    if len(falling) == 0:
        return ()
    ids = np.flatnonzero(values >= falling[-1])
    ids = ids[np.argsort(-values[ids], kind="stable")][: len(falling)]
    return tuple(zip(ids.tolist(), values[ids].tolist(), strict=True))
