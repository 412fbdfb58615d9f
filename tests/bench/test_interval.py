"""bench/interval.py: what a ratio of interleaved repeats is, and how sure."""

import pytest

from bench.interval import Interval, interval, ratio


def test_a_ratio_is_taken_repeat_by_repeat_so_a_slow_repeat_for_both_changes_nothing() -> None:
    assert ratio([20.0, 2.0, 40.0, 6.0], [10.0, 1.0, 20.0, 3.0]) == Interval(2.0, 2.0, 2.0)


def test_the_interval_holds_the_median_and_stays_within_the_repeats() -> None:
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.median == 3.0
    assert found.low is not None
    assert found.high is not None
    assert 1.0 <= found.low < 3.0 < found.high <= 5.0


def test_of_few_repeats_there_is_no_interval_and_none_is_shown() -> None:
    assert interval([1.0, 2.0, 3.0]) == Interval(2.0, None, None)
    assert str(interval([2.0])) == "2"


def test_repeats_that_do_not_pair_up_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("value", "shown"), [(1.7349, "1.73"), (0.0001234, "0.000123"), (153845.4, "153,845")])
def test_three_figures_are_shown_and_never_a_power_of_ten(value: float, shown: str) -> None:
    assert str(Interval(value, None, None)) == shown
