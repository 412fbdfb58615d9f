"""bench/suites/scoring.py: which calls count as those that were wanted."""

import pytest

from bench.suites.scoring import Call, Share, difference, is_correct, wilson

WANTED = [
    ("area", {"base": [10], "unit": ["cm", "centimetres", ""]}),
    ("book", {"to": ["New York, NY"], "at": [{"day": [1, 2], "hour": ["", 5]}], "tags": [["a", "b"], []]}),
]
AREA = Call("area", {"base": 10.0})
BOOK = Call("book", {"to": "new york NY", "at": {"day": 2}, "tags": ["A", "b"]})


def test_calls_are_correct_in_any_order() -> None:
    assert is_correct([AREA, BOOK], WANTED)
    assert is_correct([BOOK, AREA], WANTED)


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [AREA],
        [AREA, AREA],
        [AREA, BOOK, BOOK],
        [Call("area", None), BOOK],
        [Call("Area", {"base": 10}), BOOK],
        [Call("area", {"base": 11}), BOOK],
        [Call("area", {"base": "10"}), BOOK],
        [Call("area", {"base": True}), BOOK],
        [Call("area", {"base": 10, "unit": "m"}), BOOK],
        [Call("area", {"base": 10, "more": 1}), BOOK],
        [Call("area", {"unit": "cm"}), BOOK],
        [AREA, Call("book", {"to": "New York, NY", "at": {}, "tags": []})],
        [AREA, Call("book", {"to": "New York, NY", "at": {"day": 1, "hour": 6}, "tags": []})],
        [AREA, Call("book", {"to": "New York, NY", "at": {"day": 1}, "tags": ["b", "a"]})],
    ],
)
def test_other_calls_are_not(calls: list[Call]) -> None:
    assert not is_correct(calls, WANTED)


def test_where_no_call_is_wanted_none_is_correct() -> None:
    assert is_correct([], [])
    assert not is_correct([AREA], [])


def test_a_share_has_wilsons_interval() -> None:
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 10)[0] == pytest.approx(0, abs=1e-9)
    assert str(Share(5, 10)) == "50 % (24 to 76)"
    assert str(Share(0, 0)) == "none"


def test_a_difference_is_taken_case_by_case() -> None:
    mean, low, high = difference([True, True, False, True], [True, False, False, True])
    assert mean == 0.25
    assert low <= mean <= high
    assert difference([True] * 9, [True] * 9) == (0, 0, 0)
