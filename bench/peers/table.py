"""The results of bench/peers/run.py as Markdown: `python -m bench.peers.table < results.jsonl`.

A ratio is dayzero's value over a peer's of the same round: the median over the rounds, and a 95 % bootstrap interval of
that median. The best peer is the one with the best median, of those with as many bits a weight, or of all.
"""

import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OURS = "dayzero "
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Of values that were taken in the same rounds."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    tail = RESAMPLES // 40
    return Interval(statistics.median(ratios), medians[tail], medians[-1 - tail])


def best(samples: Mapping[str, Sequence[float]], unit: str) -> str | None:
    """The name with the best median: of times the least, of rates the most."""
    pick: Callable[..., str] = min if unit == "s" else max
    return pick(samples, key=lambda name: statistics.median(samples[name])) if samples else None


def tables(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for result in results:
        settings, samples, unit = result["settings"], result["samples"], result["unit"]
        bits = settings["bits"]
        yield f"\n{settings['measure']}, {settings['checkpoint']}, {unit}; {settings['threads']} threads\n"
        yield row("", "median (least to most)", "over the best peer of its bits", "over the best peer")
        yield row(*["---"] * 4)
        for name, values in samples.items():
            cells = ["", ""]
            if name.startswith(OURS):
                peers = {peer: found for peer, found in samples.items() if not peer.startswith(OURS)}
                same = {peer: found for peer, found in peers.items() if bits[peer] == bits[name]}
                cells = [against(values, same, unit), against(values, peers, unit)]
            yield row(name, spread(values), *cells)
        for name, reason in settings["failures"].items():
            yield f"\n{name} failed: {reason}"


def against(values: Sequence[float], peers: Mapping[str, Sequence[float]], unit: str) -> str:
    peer = best(peers, unit)
    return "" if peer is None else f"{ratio(values, peers[peer])} {peer}"


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    print("\n".join(tables([json.loads(line) for line in sys.stdin if line.startswith("{")])))


if __name__ == "__main__":
    main()
