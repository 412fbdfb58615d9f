"""What is asked of rows of logits and answered by numpy, in any mixture."""

import numpy as np
import pytest
import torch

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.answers import Answer, Asked, Told, answer
from dayzero.sampling.logprobs import logprobs
from dayzero.sampling.sampler import NOT_FINITE, Row, sample

LOGITS = torch.randn(5, 300, generator=torch.Generator().manual_seed(1)) * 3


def a_row(**params: object) -> Row:
    return Row(SamplingParams(max_tokens=9, seed=3, **params), (), ())


def test_rows_that_draw_and_rows_that_tell_are_answered_in_order() -> None:
    asked: list[Asked] = [Told(7, 2), a_row(), a_row(logprobs=1), Told(8, 0), a_row(temperature=0.0)]
    found = answer(LOGITS, asked)
    drawn = sample(LOGITS[[1, 2, 4]], [one for one in asked if isinstance(one, Row)])
    assert [one.token for one in found] == [7, drawn[0], drawn[1], 8, drawn[2]]
    told = logprobs(LOGITS[[0, 2, 3]], [7, drawn[1], 8], [2, 1, 0])
    assert [one.logprob for one in found] == [told[0], None, told[1], told[2], None]


def test_a_row_without_a_token_tells_nothing() -> None:
    logits = LOGITS.clone()
    logits[0, 5] = torch.nan
    assert answer(logits[:1], [a_row(logprobs=1)]) == [Answer(NOT_FINITE)]


def test_nothing_asked_is_nothing_answered() -> None:
    assert answer(torch.empty(0, 5), []) == []


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_mask_lets_through_what_it_allows(temperature: float) -> None:
    for token in (0, 31, 32, 64):
        words = np.zeros(3, dtype=np.uint32)
        words[token // 32] = 1 << token % 32
        row = Row(SamplingParams(max_tokens=9, seed=1, temperature=temperature), (), (), allowed=words.view(np.int32))
        assert answer(torch.zeros(1, 65), [row]) == [Answer(token)]
