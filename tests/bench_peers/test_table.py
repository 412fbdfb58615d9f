"""Ratios of interleaved rounds, and which peer they are taken against."""

import pytest

from bench.peers.table import best, ratio, tables


def result(unit: str, samples: dict[str, list[float]], bits: dict[str, int], failures: dict[str, str]) -> dict:
    settings = {"measure": "m", "checkpoint": "c", "threads": 2, "bits": bits, "failures": failures}
    return {"settings": settings, "unit": unit, "samples": samples}


def test_a_ratio_is_taken_round_by_round_so_a_slow_round_for_both_changes_nothing() -> None:
    found = ratio([20.0, 2.0, 40.0], [10.0, 1.0, 20.0])
    assert (found.low, found.median, found.high) == (2.0, 2.0, 2.0)


def test_the_interval_holds_the_median_and_stays_within_the_rounds() -> None:
    found = ratio([1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 5)
    assert found.median == 3.0
    assert 1.0 <= found.low < 3.0 < found.high <= 5.0


def test_rounds_that_do_not_pair_up_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("unit", "name"), [("s", "a"), ("tokens/s", "b")])
def test_the_best_time_is_the_least_and_the_best_rate_the_most(unit: str, name: str) -> None:
    assert best({"a": [1.0, 1.0, 9.0], "b": [2.0, 2.0, 2.0]}, unit) == name


def test_ours_is_set_against_the_best_of_its_bits_and_the_best_of_all_but_never_against_ours() -> None:
    samples = {"dayzero int8": [12.0], "dayzero bf16": [99.0], "x 8": [4.0], "y 8": [6.0], "y 16": [8.0]}
    bits = {"dayzero int8": 8, "dayzero bf16": 16, "x 8": 8, "y 8": 8, "y 16": 16}
    lines = list(tables([result("tokens/s", samples, bits, {})]))
    line = next(line for line in lines if line.startswith("| dayzero int8"))
    assert line.endswith("| 2.00 (2.00 to 2.00) y 8 | 1.50 (1.50 to 1.50) y 16 |")


def test_a_measure_that_no_peer_has_shows_ours_alone_and_a_failure_is_named() -> None:
    lines = list(tables([result("s", {"dayzero int8": [1.0]}, {"dayzero int8": 8}, {"x 8": "ended"})]))
    assert "| dayzero int8 | 1 (1 to 1) |  |  |" in lines
    assert lines[-1].strip() == "x 8 failed: ended"
