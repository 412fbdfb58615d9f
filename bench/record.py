"""One JSON line per result: what was measured, where, how often, and how far the repeats lay apart."""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dayzero.workshop.bench.provenance import commit, machine

Line = dict[str, Any]


def record(bench: str, samples: Mapping[str, Sequence[float]], *, unit: str, settings: Mapping[str, object]) -> None:
    """Print a result. `samples` holds one sequence for each variant, in the order of its interleaved repeats."""
    say(line_of(bench, samples, unit=unit, settings=settings))


def line_of(bench: str, samples: Mapping[str, Sequence[float]], *, unit: str, settings: Mapping[str, object]) -> Line:
    return {
        "bench": bench,
        "unit": unit,
        "commit": commit(),
        "machine": machine(),
        "settings": settings,
        "median": {name: round(statistics.median(values), 6) for name, values in samples.items()},
        "iqr": {name: round(iqr(values), 6) for name, values in samples.items()},
        "samples": {name: [round(value, 6) for value in values] for name, values in samples.items()},
    }


def say(line: Line) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def iqr(values: Sequence[float]) -> float:
    """The width of the middle half; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low
