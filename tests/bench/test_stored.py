"""bench/stored.py: a run of some measures leaves the others as they were."""

from pathlib import Path

from bench.stored import Line, keep, stored


def line(bench: str, value: float, **settings: str) -> Line:
    return {"bench": bench, "settings": settings, "median": {"x": value}}


def test_what_was_measured_again_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    decode, prefill = line("peers", 1, measure="decode", session="a"), line("peers", 2, measure="prefill", session="a")
    other = line("peers", 3, measure="decode", session="b")
    keep("peers", [decode, prefill, other], tmp_path)
    again = line("peers", 9, measure="decode", session="a")
    keep("peers", [again], tmp_path)
    assert stored("peers", tmp_path) == [prefill, other, again]


def test_all_lines_of_a_benchmark_without_measures_are_replaced_together(tmp_path: Path) -> None:
    keep("rows", [line("rows", 1, format="a"), line("rows", 2, format="b")], tmp_path)
    keep("rows", [line("rows", 3, format="c")], tmp_path)
    assert stored("rows", tmp_path) == [line("rows", 3, format="c")]


def test_parts_do_not_touch_each_other_and_one_that_was_never_measured_is_empty(tmp_path: Path) -> None:
    keep("start", [line("start", 1)], tmp_path)
    keep("wire", [line("wire", 2)], tmp_path)
    assert stored("start", tmp_path) == [line("start", 1)]
    assert stored("memory", tmp_path) == []
