"""A batch in, tokens out: the batch as tensors, the model, the sampler.

Knows nothing of scheduling. Everything here is a function of the batch, the weights and the KV store.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from dayzero.core.events import Logprob
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.model import Layout, Model
from dayzero.models.step import Hidden
from dayzero.sampling.logprobs import logprobs
from dayzero.sampling.sampler import Row, sample

HEAD_ROWS = 128  # logits held at once: a whole prompt's would be 200 MB a thousand tokens at a vocabulary of 49,152


@dataclass(frozen=True, slots=True)
class Want:
    """Rows of the hidden state that one span needs logits of.

    prompt   the prompt tokens whose log-probability the first rows tell, in order
    samples  whether the last row draws a token
    """

    prompt: Sequence[int]
    samples: bool

    @property
    def num_rows(self) -> int:
        return len(self.prompt) + self.samples


def wanted(span: Span) -> Want:
    """What a span's rows are for. Row i of a span sees token start + i and tells of token start + i + 1."""
    request = span.request
    prompt: Sequence[int] = ()
    if request.params.prompt_logprobs is not None:
        prompt = request.prompt[span.start + 1 : span.stop + 1]
    return Want(prompt, span.samples and request.params.max_tokens > 0)


class ModelRunner:
    """One model on one machine."""

    def __init__(self, model: Model, *, eos_token_ids: tuple[int, ...]) -> None:
        self._model = model
        self._eos_token_ids = eos_token_ids

    def launch(self, batch: Batch) -> "ModelStep":
        """Run the model; sampling waits for `collect`."""
        wants = [wanted(span) for span in batch.spans]
        return ModelStep(self, batch, wants, self._model.forward(_layout(batch, wants)))

    def outcomes(self, batch: Batch, wants: Sequence[Want], hidden: Hidden) -> list[Outcome]:
        """Logits, log-probabilities and tokens, in slices of rows."""
        told: list[list[Logprob]] = [[] for _ in batch.spans]
        sampled: dict[int, tuple[int, Logprob | None]] = {}
        hidden_NE = hidden.rows
        with torch.inference_mode():
            finite = _finite(batch.spans, hidden.taps[0])
            for rows in _slices(wants, HEAD_ROWS):
                part, hidden_NE = hidden_NE[: len(rows)], hidden_NE[len(rows) :]
                logits = self._model.logits(part)
                self._prompt_rows(batch, wants, rows, logits, told)
                self._sampled_rows(batch, wants, rows, logits, sampled)
        return [
            _outcome(span, told[i] if want.prompt else None, sampled.get(i))
            if finite[i]
            else Outcome(error=_not_finite(span))
            for i, (span, want) in enumerate(zip(batch.spans, wants, strict=True))
        ]

    def _prompt_rows(
        self,
        batch: Batch,
        wants: Sequence[Want],
        rows: Sequence[tuple[int, int]],
        logits_NV: Tensor,
        told: Sequence[list[Logprob]],
    ) -> None:
        chosen = [(at, i, wants[i].prompt[row]) for at, (i, row) in enumerate(rows) if row < len(wants[i].prompt)]
        if not chosen:
            return
        tops = [batch.spans[i].request.params.prompt_logprobs or 0 for _, i, _ in chosen]
        found = logprobs(logits_NV[[at for at, _, _ in chosen]], [token for _, _, token in chosen], tops)
        for (_, i, _), logprob in zip(chosen, found, strict=True):
            told[i].append(logprob)

    def _sampled_rows(
        self,
        batch: Batch,
        wants: Sequence[Want],
        rows: Sequence[tuple[int, int]],
        logits_NV: Tensor,
        sampled: dict[int, tuple[int, Logprob | None]],
    ) -> None:
        drawing = [(at, i) for at, (i, row) in enumerate(rows) if row == len(wants[i].prompt)]
        if not drawing:
            return
        if len(drawing) < len(rows):
            logits_NV = logits_NV[[at for at, _ in drawing]]
        requests = [batch.spans[i].request for _, i in drawing]
        tokens = sample(
            logits_NV,
            [Row(r.params, r.prompt, r.output, r.choice, r.attempt, self._eos_token_ids) for r in requests],
        )
        asked = [n for n, r in enumerate(requests) if r.params.logprobs is not None and tokens[n] >= 0]
        found: dict[int, Logprob] = {}
        if asked:
            tops = [requests[n].params.logprobs or 0 for n in asked]
            found = dict(zip(asked, logprobs(logits_NV[asked], [tokens[n] for n in asked], tops), strict=True))
        for n, (_, i) in enumerate(drawing):
            sampled[i] = tokens[n], found.get(n)


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A step whose hidden states are there."""

    runner: ModelRunner
    batch: Batch
    wants: Sequence[Want]
    hidden: Hidden

    def collect(self) -> list[Outcome]:
        return self.runner.outcomes(self.batch, self.wants, self.hidden)


def _layout(batch: Batch, wants: Sequence[Want]) -> Layout:
    tokens: list[int] = []
    sample_at: list[int] = []
    query_starts = [0]
    for span, want in zip(batch.spans, wants, strict=True):
        tokens.extend(span.request.tokens(span.start, span.stop))
        first, stop = query_starts[-1], query_starts[-1] + span.length
        sample_at.extend(range(first, first + len(want.prompt)))
        if want.samples:
            sample_at.append(stop - 1)
        query_starts.append(stop)
    by_group = zip(*(span.request.block_tables for span in batch.spans), strict=True)
    return Layout(
        tokens=tokens,
        sample_at=sample_at,
        query_starts=query_starts,
        first_positions=[span.start for span in batch.spans],
        block_tables=[list(tables) for tables in by_group],
    )


def _slices(wants: Sequence[Want], height: int) -> list[list[tuple[int, int]]]:
    """(span, row within its want) of every wanted row, in slices."""
    rows = [(i, row) for i, want in enumerate(wants) for row in range(want.num_rows)]
    return [rows[start : start + height] for start in range(0, len(rows), height)]


def _finite(spans: Sequence[Span], x_TE: Tensor) -> list[bool]:
    """Whether all rows of each span are finite after the last layer, those that nobody samples too.

    By torch's kernels one that is not spoils even the tokens before it that share its call, whose masks turn 0 * NaN
    into NaN. Their blocks end an innocent prefix, so no outcome must let them be published.
    """
    # A sum keeps what is not finite, and costs a twentieth of asking each element.
    rows = [math.isfinite(total) for total in x_TE.sum(-1).tolist()]
    if all(rows):
        return [True] * len(spans)
    starts = accumulate((span.length for span in spans), initial=0)
    return [all(rows[start : start + span.length]) for start, span in zip(starts, spans, strict=False)]


def _outcome(span: Span, told: list[Logprob] | None, sampled: tuple[int, Logprob | None] | None) -> Outcome:
    if told is not None and any(math.isnan(logprob.logprob) for logprob in told):
        return Outcome(error=_not_finite(span))
    prompt_logprobs = None if told is None else tuple(told)
    if sampled is None:
        return Outcome(prompt_logprobs=prompt_logprobs)
    token, logprob = sampled
    if token < 0:
        return Outcome(error=_not_finite(span))
    return Outcome((token,), None if logprob is None else (logprob,), prompt_logprobs)


def _not_finite(span: Span) -> str:
    return f"no finite logits up to position {span.stop}"
