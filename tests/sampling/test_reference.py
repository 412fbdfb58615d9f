"""The oracle itself, on rows small enough to work out by hand."""

import math

import numpy as np
import pytest

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.reference import sample_row, surviving
from dayzero.sampling.sampler import NOT_FINITE, Row


def survivors(probabilities, **params):
    logits = np.log(np.array(probabilities))
    row = Row(SamplingParams(max_tokens=9, seed=0, **params), [], [])
    return np.flatnonzero(surviving(logits - logits.max(), row)).tolist()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"top_k": 1}, [1]),
        ({"top_k": 2}, [1, 2, 3]),
        ({"top_k": 3}, [1, 2, 3]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        ({"top_p": 0.39}, [1]),
        ({"top_p": 0.41}, [1, 2, 3]),
        ({"top_p": 0.89}, [1, 2, 3]),
        ({"top_p": 0.91}, [0, 1, 2, 3]),
        ({"min_p": 0.62}, [1, 2, 3]),
        ({"min_p": 0.63}, [1]),
        ({"min_p": 1.0}, [1]),
    ],
)
def test_ties_are_kept_or_dropped_together(params, expected):
    assert survivors([0.1, 0.4, 0.25, 0.25], **params) == expected


def test_top_p_is_of_what_top_k_left():
    assert survivors([0.4, 0.3, 0.2, 0.1], top_p=0.75) == [0, 1, 2]
    assert survivors([0.4, 0.3, 0.2, 0.1], top_p=0.57, top_k=2) == [0]


def test_a_token_40_nats_below_the_best_is_gone():
    row = Row(SamplingParams(max_tokens=9, seed=0), [], [])
    assert surviving(np.array([0.0, -40.0, -40.000001, -math.inf]), row).tolist() == [True, True, False, False]


def test_greedy_takes_the_lowest_id_among_equals():
    row = Row(SamplingParams(max_tokens=9, seed=0, temperature=0.0), [], [])
    assert sample_row(np.array([0.0, 2.0, 2.0], dtype=np.float32), row) == 1


@pytest.mark.parametrize("bad", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
def test_a_row_without_a_finite_best_has_no_token(bad):
    for temperature in (0.0, 1.0):
        row = Row(SamplingParams(max_tokens=9, seed=0, temperature=temperature), [], [])
        assert sample_row(np.array(bad, dtype=np.float32), row) == NOT_FINITE
