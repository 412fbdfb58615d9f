"""The public suites: no count is worse than the one that is kept, and the page says what was counted."""

from pathlib import Path

import pytest

from bench.suites.cases import WHY_NOT, folder
from bench.suites.counts import SUITES, WORSE, stored, table
from bench.suites.run import BEGIN, END, PAGE


@pytest.fixture
def data() -> Path:
    found = folder()
    if found is None:
        pytest.skip(WHY_NOT)
    return found


@pytest.mark.parametrize("suite", list(SUITES))
def test_no_count_of_a_suite_is_worse_than_the_one_that_is_kept(data: Path, suite: str) -> None:
    counts, kept = SUITES[suite](data), stored()[suite]
    assert {name: counts.get(name, 0) for name in WORSE if counts.get(name, 0) > kept.get(name, 0)} == {}
    assert counts["schemas"] == kept["schemas"]


def test_nothing_invalid_is_accepted_and_nothing_that_is_drawn_is_invalid() -> None:
    for kept in stored().values():
        assert kept.get("invalid, accepted", 0) == 0
        assert kept.get("drawn, not valid", 0) == 0


def test_the_page_shows_what_is_kept() -> None:
    shown = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown.strip() == table({suite: stored()[suite] for suite in SUITES})
