import numpy as np
import pytest

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.reference import surviving
from dayzero.sampling.sampler import Row
from dayzero.sampling.survivors import Scaled, survivors, truncates
from tests.sampling.cases import random_logits, random_row


def check(logits, params):
    """Fast survivors equal the reference's, and so do their log-weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = Scaled(logits, float(logits.max()), params.temperature)
        ids, log_weights = survivors(scaled, params)
        expected = (logits.astype(np.float64) - scaled.best) / params.temperature
        mask = surviving(expected, Row(params, [], []))
    assert ids.tolist() == np.flatnonzero(mask).tolist()
    assert log_weights.tolist() == expected[ids].tolist()
    return len(ids)


@pytest.mark.parametrize("seed", range(4))
def test_survivors_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    for vocab_size in [1, 2, 7, 130, 130, 900, 900, 5000] * 15:
        logits, params = random_logits(rng, vocab_size), random_row(rng, vocab_size).params
        if np.isfinite(logits.max()) and not params.is_greedy:
            check(logits, params)


@pytest.mark.parametrize("top_p", [0.5, 0.9, 0.99, 0.9999999])
@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_survivors_of_a_real_sized_row_are_those_of_the_reference(top_p, spread):
    logits = (np.random.default_rng(1).standard_normal(49_152) * spread).astype(np.float32)
    check(logits, SamplingParams(max_tokens=9, seed=0, top_p=top_p))
    check(logits, SamplingParams(max_tokens=9, seed=0, top_p=top_p, temperature=0.3, min_p=1e-4))
    check(logits, SamplingParams(max_tokens=9, seed=0, top_p=top_p, top_k=3000))


@pytest.mark.parametrize("power", range(1, 14))
def test_a_cut_that_falls_on_a_border_is_decided_as_the_reference_does(power):
    """Two groups of equals whose masses are exact shares: the worst case for any error bound."""
    logits = np.zeros(2**power, dtype=np.float32)
    logits[: 2 ** (power - 1)] = np.float32(np.log(3.0))
    for top_p in (0.25, 0.5, 0.75, 1 - 2.0**-power):
        check(logits, SamplingParams(max_tokens=9, seed=0, top_p=top_p))


@pytest.mark.parametrize("below", [0, 1, 7, 20])
def test_top_p_finds_a_cut_on_either_side_of_every_window(below):
    """One likely token and 5000 that hold half of the mass, further and further down."""
    logits = np.full(5000, -np.float32(below), dtype=np.float32)
    logits[17] = 0.0
    logits[100:200] -= np.linspace(0, 1, 100, dtype=np.float32)
    for temperature in (0.5, 1.0, 2.0):
        for top_p in (0.3, 0.6, 0.999, 0.99999999):
            check(logits, SamplingParams(max_tokens=9, seed=0, top_p=top_p, temperature=temperature))


def test_a_token_whose_neighbours_round_into_the_window_is_still_gone():
    logits = np.array([1e9, 1e9 - 64, 0.0], dtype=np.float32)
    assert check(logits, SamplingParams(max_tokens=9, seed=0, top_p=0.999)) == 1
    assert check(logits, SamplingParams(max_tokens=9, seed=0, top_k=2)) == 1


def test_tokens_that_round_to_one_weight_are_equals_on_both_sides_of_a_window():
    """8 nats below the best in float64, whichever way float32 has them."""
    logits = np.array([1.0, 1e-20, -1e-20, 0.0], dtype=np.float32)
    for change in ({"top_k": 2}, {"top_p": 0.9999}, {"min_p": 3.3e-4}):
        assert check(logits, SamplingParams(max_tokens=9, seed=0, temperature=0.125, **change)) == 4


def test_without_a_rule_all_that_is_not_gone_survives():
    logits = np.linspace(-60, 0, 601, dtype=np.float32)
    assert check(logits, SamplingParams(max_tokens=9, seed=0)) == 401


def test_only_rules_that_are_in_use_truncate():
    def made(**params):
        return truncates(SamplingParams(max_tokens=9, seed=0, **params), 10)

    assert not made()
    assert not made(top_k=10)
    assert made(top_k=9)
    assert made(top_p=0.99)
    assert made(min_p=0.01)
