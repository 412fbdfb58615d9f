import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.core.shares import shares
from dayzero.errors import ConfigError


def divided(asked, total, weights=(), least=()):
    return shares(asked, total, what="apples", hint="buy more", weights=weights, least=least)


def test_who_says_nothing_shares_what_the_others_leave():
    assert divided([None, None], 64) == [32, 32]
    assert divided([16, None, None], 64) == [16, 24, 24]
    assert divided([16, 8], 64) == [16, 8]


def test_what_is_left_goes_by_weight():
    assert divided([None, None], 92, weights=[1, 8]) == [11, 81]
    assert divided([30, None, None], 92, weights=[100, 1, 2]) == [30, 21, 41]


def test_each_gets_the_least_that_it_needs_before_the_rest_goes_by_weight():
    assert divided([None, None], 256, weights=[8, 1], least=[32, 32]) == [202, 53]
    assert divided([None, 100], 132, least=[32, 32]) == [32, 100]


@pytest.mark.parametrize(
    ("asked", "total", "message"),
    [
        ([40, 30], 64, r"ask for 70 apples together \(the server has 64\)"),
        ([64, None], 64, "ask for 64 of 64 apples, and those that do not say need 1"),
        ([None, None, None], 2, "ask for 0 of 2 apples, and those that do not say need 3"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_numbers(asked, total, message):
    with pytest.raises(ConfigError, match=message):
        divided(asked, total)


@given(st.lists(st.none() | st.integers(1, 100), min_size=1, max_size=6), st.integers(1, 1000), st.randoms())
def test_no_more_is_given_than_there_is(asked, total, draw):
    weights = [draw.randint(1, 10**6) for _ in asked]
    try:
        found = divided(asked, total, weights)
    except ConfigError:
        return
    assert sum(found) <= total
    assert min(found) >= 1
    assert all(part in (None, got) for part, got in zip(asked, found, strict=True))
