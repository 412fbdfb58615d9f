"""What a step asks of rows of logits, and the answers: tokens that are drawn, log-probabilities that are told."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dayzero.core.events import Logprob
from dayzero.sampling.logprobs import logprobs
from dayzero.sampling.sampler import Row, sample


@dataclass(frozen=True, slots=True)
class Told:
    """A token whose log-probability is asked for, with that of so many alternatives."""

    token: int
    num_top: int


Asked = Row | Told  # a row that draws tells of its token if its parameters say so


@dataclass(frozen=True, slots=True)
class Answer:
    """token: what was drawn or told of; `NOT_FINITE` if the row has none."""

    token: int
    logprob: Logprob | None = None


def answer(logits: torch.Tensor, asked: Sequence[Asked]) -> list[Answer]:
    """The answer to each row.

    logits  [N, V] float32, on the CPU; read only
    """
    drawing = [i for i, one in enumerate(asked) if isinstance(one, Row)]
    rows = [one for one in asked if isinstance(one, Row)]
    drawn = sample(logits if len(rows) == len(asked) else logits[drawing], rows)
    tokens = [one.token if isinstance(one, Told) else -1 for one in asked]
    for i, token in zip(drawing, drawn, strict=True):
        tokens[i] = token
    telling = [i for i, one in enumerate(asked) if num_top(one) is not None and tokens[i] >= 0]
    told = {}
    if telling:
        tops = [num_top(asked[i]) or 0 for i in telling]
        found = logprobs(logits[telling], [tokens[i] for i in telling], tops)
        told = dict(zip(telling, found, strict=True))
    return [Answer(token, told.get(i)) for i, token in enumerate(tokens)]


def num_top(asked: Asked) -> int | None:
    """How many alternatives are to be told of; None: no log-probability."""
    return asked.num_top if isinstance(asked, Told) else asked.params.logprobs
