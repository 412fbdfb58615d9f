"""bench/ops_check.py: what counts as worse, and that noise does not."""

import importlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def ops_check(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("ops_check")


Figures = Mapping[str, float]
STORED = {"native_us": 100.0, "roofline_low": 0.8, "roofline_high": 0.9, "torch_low": 2.0, "torch_high": 2.3}


def key(ops_check: Any, rows: int = 1) -> str:
    settings = {"op": "linear", "model": "SmolLM2-135M", "weight": "down", "rows": rows, "cold": True, "bytes": 1}
    return str(ops_check.key_of(settings))


def in_turns(*turns: Figures) -> tuple[list[set[str]], Callable[[Collection[str]], dict[str, Figures]]]:
    """A measurement with one outcome for all cases of each turn, and what it was asked for."""
    asked: list[set[str]] = []

    def measure(keys: Collection[str]) -> dict[str, Figures]:
        asked.append(set(keys))
        return dict.fromkeys(keys, turns[len(asked) - 1])

    return asked, measure


def test_a_ratio_within_ten_percent_passes_at_once(ops_check: Any) -> None:
    asked, measure = in_turns({**STORED, "roofline_high": 0.73, "torch_high": 1.82})
    assert ops_check.check({key(ops_check): STORED}, measure).passed
    assert len(asked) == 1


@pytest.mark.parametrize("ratio", ["roofline", "torch"])
def test_a_ratio_that_stays_worse_fails_by_name(ops_check: Any, ratio: str) -> None:
    asked, measure = in_turns(*[{**STORED, f"{ratio}_high": STORED[f"{ratio}_low"] / 1.2}] * 3)
    verdict = ops_check.check({key(ops_check): STORED}, measure)
    assert not verdict.passed
    assert f"worse: {ratio}" in verdict.report
    assert "SmolLM2-135M" in verdict.report
    assert len(asked) == 3


def test_noise_in_one_measurement_passes(ops_check: Any) -> None:
    _, measure = in_turns({**STORED, "torch_high": 0.5}, {**STORED, "torch_high": 1.9})
    assert ops_check.check({key(ops_check): STORED}, measure).passed


def test_only_what_looked_worse_is_measured_again(ops_check: Any) -> None:
    one, other = key(ops_check, 1), key(ops_check, 16)
    asked, measure = in_turns({**STORED, "torch_high": 1.5}, STORED)
    assert ops_check.check({one: STORED, other: {**STORED, "torch_low": 1.5}}, measure).passed
    assert asked == [{one, other}, {one}]


def test_times_are_never_compared(ops_check: Any) -> None:
    _, measure = in_turns({**STORED, "native_us": 1e6})
    assert ops_check.check({key(ops_check): STORED}, measure).passed


def test_what_is_too_short_to_measure_is_not_checked(ops_check: Any) -> None:
    asked, measure = in_turns(STORED)
    assert ops_check.check({key(ops_check): {**STORED, "native_us": 3.0}, key(ops_check, 16): STORED}, measure).passed
    assert asked == [{key(ops_check, 16)}]


def test_without_stored_results_it_fails_and_says_how_to_store_some(ops_check: Any) -> None:
    _, measure = in_turns(STORED)
    verdict = ops_check.check({}, measure)
    assert not verdict.passed
    assert "nothing is stored for this processor" in verdict.report
    assert "--store" in verdict.report


def test_stored_results_that_are_all_too_short_are_not_called_missing(ops_check: Any) -> None:
    asked, measure = in_turns(STORED)
    verdict = ops_check.check({key(ops_check): {**STORED, "native_us": 3.0}}, measure)
    assert not verdict.passed
    assert "nothing of the 1 stored ops is checked: each takes under 10 us" in verdict.report
    assert not asked


@pytest.mark.parametrize(("share", "above"), [(0.99, False), (1.0, False), (1.01, True)])
def test_nothing_is_faster_than_the_machine(ops_check: Any, share: float, above: bool) -> None:
    assert ops_check.above_roof({**STORED, "roofline_ratio": share}) == above


def test_of_what_is_short_the_roof_is_as_short(ops_check: Any) -> None:
    assert not ops_check.above_roof({**STORED, "native_us": 3.0, "roofline_ratio": 1.4})


def test_results_of_another_number_of_threads_are_no_results(ops_check: Any) -> None:
    verdict = ops_check.check({key(ops_check): STORED}, lambda _: {})
    assert not verdict.passed
    assert "nothing is stored for these threads" in verdict.report


def test_a_key_leaves_out_what_follows_from_the_rest(ops_check: Any) -> None:
    about = {"op": "linear", "rows": 1}
    assert ops_check.key_of(about) == ops_check.key_of({**about, "cold": True, "bytes": 7, "operations": 9})
    assert ops_check.key_of(about) != ops_check.key_of({**about, "rows": 2})


def test_the_best_time_of_each_side_counts(ops_check: Any) -> None:
    found = ops_check.figures({"native_us": [9.0, 4.0], "roof_us": [2.0, 8.0], "torch_us": [30.0, 12.0]})
    best = {"native_us": 4, "roof_us": 2, "torch_us": 12, "roofline_ratio": 0.5, "torch_ratio": 3}
    assert best.items() <= found.items()


def test_ratios_of_turns_have_a_lower_quartile_and_a_highest(ops_check: Any) -> None:
    times = [10.0, 10.0, 10.0, 10.0, 10.0]
    found = ops_check.figures({"native_us": times, "roof_us": [1.0, 5.0, 3.0, 2.0, 4.0], "torch_us": times})
    assert (found["roofline_low"], found["roofline_high"]) == (0.2, 0.5)
    assert (found["torch_low"], found["torch_high"]) == (1, 1)


@pytest.mark.parametrize(("roof_us", "share"), [(98.0, 0.98), (104.0, 1.0), (106.0, 1.06)])
def test_an_op_at_its_roof_is_the_roof_and_one_far_above_is_seen(ops_check: Any, roof_us: float, share: float) -> None:
    found = ops_check.figures({"native_us": [100.0], "roof_us": [roof_us], "torch_us": [100.0]})
    assert found["roofline_ratio"] == pytest.approx(share)
    assert ops_check.above_roof(found) == (share > 1)
