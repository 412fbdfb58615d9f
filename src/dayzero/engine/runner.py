"""A batch in, tokens out: what the spans ask of the model, and what its answers mean for them.

Knows nothing of scheduling and no tensors. Everything here is a function of the batch, the weights and the KV store.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dayzero.engine import pooling
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.model import Answers, Layout, Model
from dayzero.sampling.answers import Answer, Asked, Told
from dayzero.sampling.sampler import Row


class ModelRunner:
    """One model on one machine."""

    def __init__(self, model: Model, *, eos_token_ids: tuple[int, ...]) -> None:
        self._model = model
        self._eos_token_ids = eos_token_ids

    def launch(self, batch: Batch) -> "ModelStep":
        """Run the model and sample; what it means waits for `collect`."""
        asked = [self._asked(span) for span in batch.spans]
        pooled = [_pooled_rows(span) for span in batch.spans]
        answers = self._model.answer(_layout(batch, asked, pooled), [one for each in asked for one in each])
        return ModelStep(batch, asked, pooled, answers)

    def _asked(self, span: Span) -> list[Asked]:
        """What is asked of a span's rows. Row i of a span sees token start + i and tells of token start + i + 1."""
        request, params = span.request, span.request.params
        if request.pooling is not None:
            return []
        asked: list[Asked] = []
        if params.prompt_logprobs is not None:
            asked += [Told(token, params.prompt_logprobs) for token in request.prompt[span.start + 1 : span.stop + 1]]
        if span.samples and params.max_tokens > 0:
            asked.append(
                Row(
                    params,
                    request.prompt,
                    request.output,
                    request.choice,
                    request.attempt,
                    self._eos_token_ids,
                    request.allowed,
                )
            )
        return asked


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A step that was computed, and what each span asked for: answers, or rows as they are."""

    batch: Batch
    asked: Sequence[Sequence[Asked]]
    pooled: Sequence[range]
    answers: Answers

    def collect(self) -> list[Outcome]:
        """The answers, span by span."""
        spoilt = _spoilt(self.batch.spans, self.answers.not_finite)
        outcomes = []
        first = first_hidden = 0
        for i, (span, asked, pooled) in enumerate(zip(self.batch.spans, self.asked, self.pooled, strict=True)):
            told = self.answers.rows[first : first + len(asked)]
            rows = self.answers.hidden[first_hidden : first_hidden + len(pooled)]
            first, first_hidden = first + len(asked), first_hidden + len(pooled)
            outcome = None
            if i not in spoilt:
                outcome = _outcome(told, draws=_draws(asked)) if span.request.pooling is None else _pool(span, rows)
            outcomes.append(outcome or Outcome(error=f"no finite logits up to position {span.stop}"))
        return outcomes


def _layout(batch: Batch, asked: Sequence[Sequence[Asked]], pooled: Sequence[range]) -> Layout:
    tokens: list[int] = []
    sample_at: list[int] = []
    hidden_at: list[int] = []
    query_starts = [0]
    for span, each, rows in zip(batch.spans, asked, pooled, strict=True):
        tokens.extend(span.request.tokens(span.start, span.stop))
        first, stop = query_starts[-1], query_starts[-1] + span.length
        sample_at.extend(range(first, first + len(each) - _draws(each)))
        if _draws(each):
            sample_at.append(stop - 1)
        hidden_at.extend(first + row for row in rows)
        query_starts.append(stop)
    by_group = zip(*(span.request.block_tables for span in batch.spans), strict=True)
    return Layout(
        tokens=tokens,
        sample_at=sample_at + hidden_at,
        query_starts=query_starts,
        first_positions=[span.start for span in batch.spans],
        block_tables=[list(tables) for tables in by_group],
    )


def _spoilt(spans: Sequence[Span], not_finite: Sequence[int]) -> set[int]:
    """Spans with a row that is not finite after the last layer, be it one that nobody samples.

    By torch's kernels such a row spoils even the tokens before it that share its call, whose masks turn 0 * NaN into
    NaN. Their blocks end an innocent prefix, so no outcome must let them be published.
    """
    if not not_finite:
        return set()
    owners = [i for i, span in enumerate(spans) for _ in range(span.length)]
    return {owners[row] for row in not_finite}


def _pooled_rows(span: Span) -> range:
    """Rows of a span whose hidden states are wanted, from its first."""
    if span.request.pooling is None:
        return range(0)
    return pooling.wanted(span.request.pooling, span.start, span.length, is_last=span.samples)


def _pool(span: Span, rows: Iterable[pooling.Row]) -> Outcome:
    total = pooling.add(span.request.pooled, rows)
    return Outcome(pooled=total, embedding=pooling.embedding(total) if span.samples else None)


def _draws(asked: Sequence[Asked]) -> bool:
    """Whether the last row draws a token; those before it tell of prompt tokens."""
    return bool(asked) and isinstance(asked[-1], Row)


def _outcome(answers: Sequence[Answer], *, draws: bool) -> Outcome | None:
    """None: a row has no finite logits."""
    if any(one.token < 0 or (one.logprob is not None and math.isnan(one.logprob.logprob)) for one in answers):
        return None
    told = tuple(one.logprob for one in answers[: len(answers) - draws] if one.logprob is not None)
    if not draws:
        return Outcome(prompt_logprobs=told or None)
    drawn = answers[-1]
    return Outcome((drawn.token,), None if drawn.logprob is None else (drawn.logprob,), told or None)
