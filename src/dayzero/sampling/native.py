"""`sampling.answers` by native code: the same tokens, and log-probabilities that agree to a few roundings.

The rare row where rounding could decide is drawn from by `sampling.sampler`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dayzero.core.events import Logprob
from dayzero.kernels.native.program import rows_at
from dayzero.kernels.native.vocabulary import NativeVocabulary
from dayzero.sampling.answers import Answer, Asked, Told, num_top
from dayzero.sampling.penalties import has_penalties, penalize
from dayzero.sampling.sampler import Row, sample


@dataclass(frozen=True, slots=True)
class Packed:
    """What is asked of some rows, and how native code is asked; those with penalties are drawn from edited logits."""

    asked: Sequence[Asked]
    rows: list[bytes]
    penalised: list[int]


class NativeSampler:
    """Answers rows of logits. What is asked is packed first, so that little is left to do once a model has run."""

    def __init__(self, vocabulary: NativeVocabulary, vocab_size: int) -> None:
        self._vocabulary = vocabulary
        self._vocab_size = vocab_size

    def packed(self, asked: Sequence[Asked]) -> Packed:
        """What is asked, before there are logits."""
        penalised = [
            i for i, one in enumerate(asked) if isinstance(one, Row) and has_penalties(one.params, len(one.output))
        ]
        return Packed(asked, [self._packed(one) for one in asked], penalised)

    def answer(self, logits: int, packed: Packed) -> list[Answer]:
        """The answer to each row of logits [N, V] float32, at this address."""
        rows = list(packed.rows)
        if packed.penalised:
            self._draw_penalised(logits, packed, rows)
        found = self._vocabulary.answer(logits, self._vocab_size, b"".join(rows))
        doubtful = [i for i, token in enumerate(found.tokens) if token == self._vocabulary.DOUBTFUL]
        if doubtful:
            logits_NV = rows_at(logits, len(rows), self._vocab_size)
            asked = [one for i in doubtful if isinstance(one := packed.asked[i], Row)]
            for i, row, token in zip(doubtful, asked, sample(logits_NV[doubtful], asked), strict=True):
                rows[i] = self._vocabulary.told(token, row.params.logprobs)
            found = self._vocabulary.answer(logits, self._vocab_size, b"".join(rows))
        return _answers(packed.asked, found)

    def _packed(self, asked: Asked) -> bytes:
        if isinstance(asked, Told):
            return self._vocabulary.told(asked.token, asked.num_top)
        params, allowed = asked.params, asked.allowed
        if allowed is not None:
            assert allowed.dtype == np.int32, allowed.dtype
            assert allowed.shape == (-(-self._vocab_size // 32),), (allowed.shape, self._vocab_size)
            assert allowed.flags.c_contiguous
        return self._vocabulary.drawn(
            params.temperature,
            (params.top_k, params.top_p, math.log(params.min_p) if params.min_p > 0 else -math.inf),
            (params.seed, len(asked.prompt) + len(asked.output), asked.choice << 32 | asked.attempt),
            allowed,
            params.logprobs,
        )

    def _draw_penalised(self, logits: int, packed: Packed, rows: list[bytes]) -> None:
        """Draw from edited copies, and let the raw logits only tell of what was drawn."""
        edited = rows_at(logits, len(rows), self._vocab_size)[packed.penalised]
        asked = [one for i in packed.penalised if isinstance(one := packed.asked[i], Row)]
        for x, row in zip(edited.numpy(), asked, strict=True):
            penalize(x, row.params, row.prompt, row.output, row.eos_token_ids, row.allowed)
        drawn = self._vocabulary.answer(
            edited.data_ptr(), self._vocab_size, b"".join(rows[i] for i in packed.penalised)
        )
        for i, row, token in zip(packed.penalised, asked, drawn.tokens, strict=True):
            rows[i] = self._vocabulary.told(token, row.params.logprobs)


def _answers(asked: Sequence[Asked], found: Any) -> list[Answer]:
    tokens: list[int] = found.tokens
    logprobs: list[float] = found.logprobs
    if not logprobs:
        return [Answer(token) for token in tokens]
    ranks, top_ids, top_logprobs = found.ranks, found.top_ids, found.top_logprobs
    most = len(top_ids) // len(tokens)
    answers = []
    for i, (token, one) in enumerate(zip(tokens, asked, strict=True)):
        count = num_top(one)
        logprob = None
        if count is not None and token >= 0:
            top = slice(i * most, i * most + count)
            pairs = zip(top_ids[top], top_logprobs[top], strict=True)
            logprob = Logprob(token, logprobs[i], ranks[i], tuple(pair for pair in pairs if pair[0] >= 0))
        answers.append(Answer(token, logprob))
    return answers
