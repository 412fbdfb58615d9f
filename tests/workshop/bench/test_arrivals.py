import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.workshop.bench.arrivals import arrival_times_s


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    count=st.integers(1, 300),
    rate=st.floats(0.01, 1000),
    burstiness=st.floats(0.2, 20),
    seed=st.integers(0, 2**31),
)
def test_arrivals_never_go_back_and_end_before_count_over_rate(count, rate, burstiness, seed):
    times = arrival_times_s(count, rate_per_s=rate, burstiness=burstiness, seed=seed)
    assert len(times) == count
    assert all(later >= earlier for earlier, later in zip([0.0, *times], times, strict=False))
    assert times[-1] <= count / rate


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others():
    first, again, other = (arrival_times_s(50, rate_per_s=5, burstiness=1, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("burstiness", "variation"), [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)])
def test_gaps_vary_by_one_over_the_root_of_the_burstiness(burstiness, variation):
    gaps = np.diff(arrival_times_s(20_000, rate_per_s=10, burstiness=burstiness, seed=3))
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


def test_the_rate_asked_for_is_the_rate_sent_at_any_burstiness():
    for burstiness in (0.25, 1.0, 4.0):
        times = arrival_times_s(1000, rate_per_s=10, burstiness=burstiness, seed=5)
        assert times[-1] == pytest.approx(100, rel=0.02)


def test_arrivals_of_a_poisson_process_are_exponential():
    gaps = np.diff(arrival_times_s(20_000, rate_per_s=10, burstiness=1, seed=4))
    for quantile in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(gaps, quantile) == pytest.approx(-np.log(1 - quantile) / 10, rel=0.05)
