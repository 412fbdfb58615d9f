"""One JSON line per result: what was measured, where, how often, and how far the repeats lay apart."""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence

from dayzero.workshop.bench.provenance import commit, machine


def record(bench: str, samples: Mapping[str, Sequence[float]], *, unit: str, settings: Mapping[str, object]) -> None:
    """Print a result. `samples` holds one sequence for each variant, in the order of its interleaved repeats."""
    line = {
        "bench": bench,
        "unit": unit,
        "commit": commit(),
        "machine": machine(),
        "settings": settings,
        "median": {name: round(statistics.median(values), 6) for name, values in samples.items()},
        "iqr": {name: round(iqr(values), 6) for name, values in samples.items()},
        "samples": {name: [round(value, 6) for value in values] for name, values in samples.items()},
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def iqr(values: Sequence[float]) -> float:
    """The width of the middle half; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low
