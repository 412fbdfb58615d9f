"""KL and agreement against sums by hand and closed forms."""

import math

import pytest
import torch

from dayzero.workshop.fidelity.divergence import Golden


def logits_of(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def some_logits(seed: int, rows: int = 5, vocab: int = 700) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 4


def test_kl_is_the_sum_of_the_textbook():
    golden, served = some_logits(0), some_logits(1)
    by_hand = []
    for z_p, z_q in zip(golden.tolist(), served.tolist(), strict=True):
        log_p = [z - math.log(math.fsum(map(math.exp, z_p))) for z in z_p]
        log_q = [z - math.log(math.fsum(map(math.exp, z_q))) for z in z_q]
        by_hand.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(log_p, log_q, strict=True)))
    assert Golden.of(golden).kl(served).tolist() == pytest.approx(by_hand, rel=1e-12)


def test_kl_of_two_outcomes_is_that_of_bernoulli():
    p, q = 0.3, 0.6
    expected = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert Golden.of(logits_of(p, 1 - p)).kl(logits_of(q, 1 - q)).item() == pytest.approx(expected, rel=1e-12)


def test_kl_against_a_uniform_distribution_is_log_v_minus_the_entropy():
    p = (0.5, 0.25, 0.125, 0.125)
    entropy = -sum(x * math.log(x) for x in p)
    assert Golden.of(logits_of(*p)).kl(torch.zeros(1, 4)).item() == pytest.approx(math.log(4) - entropy, rel=1e-12)


def test_kl_is_from_golden_to_served_and_not_back():
    a, b = logits_of(0.9, 0.1), logits_of(0.5, 0.5)
    assert Golden.of(a).kl(b).item() == pytest.approx(0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert Golden.of(b).kl(a).item() == pytest.approx(0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(5))


def test_kl_of_a_distribution_with_itself_is_exactly_0():
    golden = some_logits(2)
    assert Golden.of(golden).kl(golden.clone()).tolist() == [0.0] * 5


def test_logits_that_differ_by_a_constant_are_the_same_distribution():
    golden = some_logits(3).double()
    assert Golden.of(golden).kl(golden + 7).max() < 1e-13


def test_kl_far_below_float32_is_still_the_half_variance_of_the_error():
    golden = some_logits(4).double()
    error = 1e-6 * some_logits(5).double()
    p = golden.softmax(-1)
    half_variance = ((p * error**2).sum(-1) - (p * error).sum(-1) ** 2) / 2
    assert Golden.of(golden).kl(golden + error).tolist() == pytest.approx(half_variance.tolist(), rel=1e-3)


def test_agreement_asks_for_the_likeliest_token_and_a_tie_goes_to_the_lowest_id():
    golden = torch.tensor([[1.0, 3, 2], [3, 1, 2], [2, 2, 1]])
    served = torch.tensor([[0.0, 9, 8], [1, 2, 0], [5, 5, 9]])
    assert Golden.of(golden).agrees(served).tolist() == [True, False, False]
    assert Golden.of(golden).agrees(torch.tensor([[0.0, 1, 1], [1, 1, 1], [4, 4, 4]])).tolist() == [True, True, True]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_logit_that_is_not_finite_shows_on_either_side(bad: float):
    good = some_logits(6, rows=1)
    broken = good.clone()
    broken[0, 3] = bad
    assert not Golden.of(good).kl(broken).isfinite().any()
    assert not Golden.of(broken).log_likelihood.isfinite().any()
