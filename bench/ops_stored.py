"""Results of ops that are kept: bench/results/ops.jsonl, of every processor, instruction set and number of threads."""

import json
from collections.abc import Sequence
from pathlib import Path

from ops_check import TRIES, above_roof, key_of
from record import Line

from dayzero.workshop.bench.provenance import machine

RESULTS = Path(__file__).parent / "results" / "ops.jsonl"


def stored(path: Path = RESULTS) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def of_here(line: Line) -> bool:
    """Whether a result is of this model of processor."""
    return bool(line["machine"]["cpu"] == machine()["cpu"])


def keep(lines: Sequence[Line], path: Path = RESULTS) -> str | None:
    """Replace the figures of these cases, and leave those of other processors and settings.

    What came out above the roof is not kept, nor what was kept of it before. Returns what is wrong with such.
    """
    refused = [line for line in lines if above_roof(line["best"])]
    measured = {key_of(line["settings"]) for line in lines}
    others = [line for line in stored(path) if not of_here(line) or key_of(line["settings"]) not in measured]
    sound = [without_samples(line) for line in lines if line not in refused]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (*others, *sound)))
    if not refused:
        return None
    found = [
        f"not kept: {line['best']['roofline_ratio']:.3g} of the roof: {key_of(line['settings'])}" for line in refused
    ]
    found.append(f"error: {len(refused)} of {len(lines)} ops are above the roof, {TRIES} times")
    return "\n".join((*found, "hint: measure again on a quiet machine"))


def without_samples(line: Line) -> Line:
    """They take as many bytes as all the rest."""
    return {name: value for name, value in line.items() if name != "samples"}
