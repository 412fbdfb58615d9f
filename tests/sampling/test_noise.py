import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.sampling.noise import Draw, gumbel, least_raw, philox, raw_at, raw_row, uniform

words = st.integers(0, 2**64 - 1)
halves = st.integers(0, 2**32 - 1)
draws = st.builds(Draw, seed=words, choice=halves, attempt=halves, position=words)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        (
            [0, 0, 0, 0],
            [0, 0],
            [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B],
        ),
        (
            [2**64 - 1] * 4,
            [2**64 - 1] * 2,
            [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
        ),
        (
            [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
            [0x452821E638D01377, 0xBE5466CF34E90C6C],
            [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, expected):
    columns = philox(np.array([counter] * 3, dtype=np.uint64).T, np.array([key] * 3, dtype=np.uint64).T)
    assert columns.T.tolist() == [expected] * 3


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(draws, min_size=1, max_size=4), st.data())
def test_scattered_noise_is_the_rows_bit_for_bit(some_draws, data):
    vocab_size = 300
    pairs = st.tuples(st.integers(0, len(some_draws) - 1), st.integers(0, vocab_size - 1))
    owners, tokens = np.array(data.draw(st.lists(pairs, min_size=1, max_size=50)), dtype=np.intp).T
    rows = np.stack([raw_row(draw, vocab_size) for draw in some_draws])
    assert raw_at(some_draws, owners, tokens).tolist() == rows[owners, tokens].tolist()


def test_scattered_noise_does_not_depend_on_how_much_is_asked_for():
    draw = Draw(seed=5, choice=1, attempt=0, position=77)
    tokens = np.arange(10_000)[::-1].copy()
    assert np.array_equal(raw_at([draw], np.zeros_like(tokens), tokens), raw_row(draw, 10_000)[::-1])


def test_every_part_of_a_draw_changes_the_noise():
    some_draws = [Draw(1, 0, 0, 0), Draw(2, 0, 0, 0), Draw(1, 1, 0, 0), Draw(1, 0, 1, 0), Draw(1, 0, 0, 1)]
    rows = {raw_row(draw, 8).tobytes() for draw in some_draws}
    assert len(rows) == len(some_draws)


def test_uniforms_never_reach_0_or_1_and_the_noise_is_finite_and_rises():
    raw = np.array([0, 1 << 12, 1 << 63, 2**64 - 2**12, 2**64 - 1], dtype=np.uint64)
    assert uniform(raw)[0] == 2.0**-53
    assert uniform(raw)[-1] == 1 - 2.0**-53
    noise = gumbel(raw)
    assert np.isfinite(noise).all()
    assert (np.diff(noise) >= 0).all()
    assert -3.7 < noise[0] < noise[-1] < 36.8


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.floats(-5, 40), words)
def test_bits_below_the_least_give_less_noise_and_the_least_is_tight(noise, raw):
    bound = least_raw(noise)
    below = np.array([bound - 1, bound // 2, min(raw, bound - 1)] if bound else [], dtype=np.uint64)
    assert (gumbel(below) < noise).all()
    enough = np.array([raw], dtype=np.uint64)
    assert gumbel(enough)[0] < noise or raw >= bound
    if -2 < noise < 20:  # below, the margin for rounding is wider than the steps of the uniform
        assert gumbel(np.array([bound], dtype=np.uint64))[0] == pytest.approx(noise, abs=1e-5) or bound == 0


@pytest.mark.parametrize("noise", [float("-inf"), -1e9, -7.0, 37.0, 1e9, float("inf")])
def test_least_raw_takes_any_number(noise):
    assert 0 <= least_raw(noise) < 2**64


def test_noise_of_a_value_does_not_depend_on_its_neighbours_or_its_place():
    raw = raw_row(Draw(3, 0, 0, 0), 1001)
    noise = gumbel(raw)
    assert all(gumbel(raw[i : i + 1].copy())[0] == noise[i] for i in range(0, 1001, 7))
    assert np.array_equal(gumbel(raw[5:600]), noise[5:600])


def chi_square(counts: np.ndarray, expected: float) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def limit(degrees: int) -> float:
    """Five standard deviations above the mean: a good generator passes for all but one seed in a million."""
    return degrees + 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("seed", [0, 1, 2**63])
def test_uniforms_are_uniform(seed):
    values = uniform(raw_row(Draw(seed, 0, 0, 9), 100_000))
    assert chi_square(np.histogram(values, 256, (0, 1))[0], 100_000 / 256) < limit(255)


@pytest.mark.parametrize("other", [Draw(7, 1, 0, 3), Draw(7, 0, 1, 3), Draw(7, 0, 0, 4), Draw(8, 0, 0, 3)])
def test_neighbouring_draws_are_independent(other):
    pairs = np.histogram2d(
        uniform(raw_row(Draw(7, 0, 0, 3), 50_000)), uniform(raw_row(other, 50_000)), 16, [[0, 1], [0, 1]]
    )[0]
    assert chi_square(pairs, 50_000 / 256) < limit(255)


def test_noise_of_neighbouring_tokens_is_independent():
    values = uniform(raw_row(Draw(7, 0, 0, 3), 50_001))
    pairs = np.histogram2d(values[:-1], values[1:], 16, [[0, 1], [0, 1]])[0]
    assert chi_square(pairs, 50_000 / 256) < limit(255)
