import numpy as np
import pytest

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.penalties import has_penalties, penalize
from dayzero.sampling.reference import penalized
from tests.sampling.cases import random_logits, random_row


def edited(logits, *, prompt=(), output=(), eos=(), allowed=None, **params):
    row = np.array(logits, dtype=np.float32)
    mask = None if allowed is None else np.array([sum(1 << token for token in allowed)], dtype=np.int32)
    penalize(row, SamplingParams(max_tokens=9, seed=0, **params), prompt, output, eos, mask)
    return row.tolist()


def test_defaults_change_nothing():
    params = SamplingParams(max_tokens=9, seed=0)
    assert not has_penalties(params, 0)
    assert edited([1.5, -2.0], prompt=[0], output=[1]) == [1.5, -2.0]


@pytest.mark.parametrize(
    "change",
    [
        {"min_tokens": 1},
        {"repetition_penalty": 1.1},
        {"presence_penalty": -0.1},
        {"frequency_penalty": 0.1},
        {"logit_bias": {1: 1.0}},
        {"banned_tokens": (1,), "banned_until": 1},
    ],
)
def test_each_parameter_is_noticed(change):
    assert has_penalties(SamplingParams(max_tokens=9, seed=0, **change), 0)


def test_min_tokens_is_over_when_the_output_has_as_many():
    assert not has_penalties(SamplingParams(max_tokens=9, seed=0, min_tokens=2), 2)


def test_repetition_divides_positive_logits_and_multiplies_negative_ones_once():
    assert edited([4.0, -4.0, 4.0], prompt=[0, 0], output=[1, 0], repetition_penalty=2.0) == [2.0, -8.0, 4.0]


def test_frequency_counts_output_tokens_and_presence_counts_them_once():
    logits = edited([1.0, 1.0, 1.0], prompt=[2, 2], output=[0, 0, 1], frequency_penalty=0.25, presence_penalty=0.5)
    assert logits == [0.0, 0.25, 1.0]


def test_a_bias_is_added_after_the_penalties():
    assert edited([4.0], output=[0], repetition_penalty=2.0, presence_penalty=1.0, logit_bias={0: 10.0}) == [11.0]


def test_early_ends_are_masked_even_against_a_bias():
    logits = edited([0.0] * 4, eos=[1], stop_token_ids=(2,), logit_bias={2: 100.0}, min_tokens=1)
    assert logits == [0.0, -np.inf, -np.inf, 0.0]


def test_ignore_eos_leaves_the_end_of_sequence_token_and_masks_stop_tokens():
    assert edited([0.0] * 3, eos=[1], stop_token_ids=(2,), ignore_eos=True, min_tokens=1) == [0.0, 0.0, -np.inf]


def test_banned_tokens_are_masked_until_the_output_has_so_many():
    ban = {"banned_tokens": (0, 2), "banned_until": 2}
    assert edited([1.0] * 3, output=[0], **ban) == [-np.inf, 1.0, -np.inf]
    assert edited([1.0] * 3, output=[0, 1], **ban) == [1.0] * 3
    assert not has_penalties(SamplingParams(max_tokens=9, seed=0, **ban), 2)


def test_a_ban_that_would_leave_nothing_gives_way():
    ban = {"banned_tokens": (0, 2), "banned_until": 1}
    assert edited([1.0] * 3, allowed=[0, 1], **ban) == [-np.inf, 1.0, -np.inf]
    assert edited([1.0] * 3, allowed=[0, 2], **ban) == [1.0] * 3
    assert edited([1.0, -np.inf, 1.0], **ban) == [1.0, -np.inf, 1.0]
    assert edited([1.0] * 3, eos=[1], min_tokens=1, **ban) == [1.0, -np.inf, 1.0]


def test_ids_beyond_the_row_are_passed_over():
    logits = edited(
        [1.0, 1.0],
        prompt=[7, -1],
        output=[8, 0],
        eos=[99],
        min_tokens=5,
        repetition_penalty=2.0,
        presence_penalty=1.0,
        logit_bias={5: 1.0, 1: 1.0},
    )
    assert logits == [-0.5, 2.0]


def test_what_float32_cannot_hold_becomes_infinite_without_a_warning():
    assert edited([3e38, -3e38, 1.0], prompt=[0], output=[1], repetition_penalty=0.01)[0] == np.inf
    assert edited([3e38, -3e38, 1.0], prompt=[0], output=[1], repetition_penalty=100.0)[1] == -np.inf


@pytest.mark.parametrize("seed", range(5))
def test_penalties_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    for vocab_size in [1, 7, 40] * 20:
        logits, row = random_logits(rng, vocab_size), random_row(rng, vocab_size)
        mine = logits.copy()
        penalize(mine, row.params, row.prompt, row.output, row.eos_token_ids, row.allowed)
        assert np.array_equal(mine, penalized(logits, row), equal_nan=True)
