import numpy as np
import pytest

from dayzero.workshop.bench.compare import bootstrap_median, compare, ratio_of
from dayzero.workshop.bench.measures import measure
from dayzero.workshop.bench.timeline import Timeline, Usage


def noisy_rounds(rng, ratio, rounds=10):
    """Rounds of one measure: the machine's mood moves both sides, each has 3 % noise of its own, B is `ratio` x A."""
    mood = np.exp(rng.normal(0, 0.3, rounds))
    left, right = np.exp(rng.normal(0, 0.03, (2, rounds)))
    return [({"x_per_s": a}, {"x_per_s": b}) for a, b in zip(mood * left, ratio * mood * right, strict=True)]


def test_a_planted_ratio_is_recovered_through_the_mood_of_the_machine():
    ratio = ratio_of("x_per_s", noisy_rounds(np.random.default_rng(1), 1.5))
    assert ratio.ratio == pytest.approx(1.5, rel=0.05)
    assert ratio.low < 1.5 < ratio.high
    assert ratio.better == "B"


def test_equal_sides_are_told_apart_about_as_seldom_as_the_confidence_says():
    ratios = [ratio_of("x_per_s", noisy_rounds(np.random.default_rng(seed), 1.0)) for seed in range(100)]
    assert sum(ratio.better is not None for ratio in ratios) <= 10


def test_for_a_latency_the_smaller_side_is_better():
    rounds = [({"ttft_s p50": 1.0}, {"ttft_s p50": 2.0 + n / 100}) for n in range(8)]
    assert ratio_of("ttft_s p50", rounds).better == "A"


def test_rounds_that_lack_a_measure_are_left_out():
    rounds = [({"x": 1.0}, {"x": 2.0}), ({"x": 1.0}, {}), ({"x": 0.0}, {"x": 5.0})]
    ratio = ratio_of("x", rounds)
    assert (ratio.a, ratio.b, ratio.ratio) == ((1.0,), (2.0,), 2.0)
    assert ratio_of("y", rounds) is None


def test_three_rounds_have_a_ratio_but_no_interval():
    ratio = ratio_of("x", [({"x": 1.0}, {"x": 2.0})] * 3)
    assert (ratio.ratio, ratio.low, ratio.high, ratio.better) == (2.0, None, None, None)


def test_the_interval_of_constant_rounds_is_a_point():
    assert bootstrap_median(np.full(5, 1.25)) == (1.25, 1.25)


def test_reports_are_compared_measure_by_measure():
    def report(seconds):
        outputs_s = (seconds, 2 * seconds, 3 * seconds)
        request = Timeline(
            session=0,
            turn=0,
            due_s=0,
            sent_s=0,
            ended_s=outputs_s[-1],
            outputs_s=outputs_s,
            usage=Usage(1, 3, None),
        )
        return measure([request], {"ttft_s": 100.0})

    ratios = {r.name: r for r in compare([report(1.0)] * 4, [report(2.0)] * 4)}
    for name in ("ttft_s p50", "itl_s mean", "itl_s p99", "tpot_s p50", "e2e_s p99"):
        assert (ratios[name].ratio, ratios[name].better) == (pytest.approx(2.0), "A")
    for name in ("output_tokens_per_s", "requests_per_s", "goodput_per_s"):
        assert (ratios[name].ratio, ratios[name].better) == (pytest.approx(0.5), "A")
