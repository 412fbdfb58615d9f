"""bench/ops_stored.py: what is kept of ops, and that none is kept above the roof."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from dayzero.workshop.bench.provenance import machine

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def ops_stored(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("ops_stored")


def line(rows: int, share: float, cpu: str | None = None) -> dict[str, Any]:
    figures = {"native_us": 100.0, "roofline_ratio": share, "torch_ratio": 2.0}
    here = {**machine(), **({"cpu": cpu} if cpu else {})}
    settings = {"op": "linear", "rows": rows}
    return {"machine": here, "settings": settings, "best": figures, "samples": {"native_us": [100.0]}}


def kept(ops_stored: Any, path: Path) -> list[tuple[int, float]]:
    return [(line["settings"]["rows"], line["best"]["roofline_ratio"]) for line in ops_stored.stored(path)]


def test_cases_measured_again_are_replaced_and_those_of_other_processors_stay(ops_stored: Any, tmp_path: Path) -> None:
    path = tmp_path / "ops.jsonl"
    path.write_text(json.dumps(line(2, 0.7, cpu="another")) + "\n")
    assert ops_stored.keep([line(1, 0.5), line(2, 0.6)], path) is None
    assert ops_stored.keep([line(2, 0.9)], path) is None
    assert kept(ops_stored, path) == [(2, 0.7), (1, 0.5), (2, 0.9)]
    assert all("samples" not in one for one in ops_stored.stored(path)[1:])


def test_what_is_above_the_roof_is_refused_by_name_and_so_is_what_stood_in_its_place(
    ops_stored: Any, tmp_path: Path
) -> None:
    path = tmp_path / "ops.jsonl"
    ops_stored.keep([line(1, 0.5), line(2, 0.6)], path)
    wrong = ops_stored.keep([line(1, 1.25), line(2, 1.0)], path)
    assert kept(ops_stored, path) == [(2, 1.0)]
    assert "1.25 of the roof" in wrong
    assert '"rows": 1' in wrong
    assert "1 of 2" in wrong
