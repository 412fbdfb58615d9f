"""The results of bench/peers/run.py as Markdown: `python -m bench.peers.table < results.jsonl`.

A ratio is dayzero's value over a peer's of the same round. The best peer is the one with the best median, of those with
as many bits a weight, or of all.
"""

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench.interval import ratio
from bench.peers.contenders import OURS, SERVED

Samples = Mapping[str, Sequence[float]]


def tables(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for result in results:
        settings, unit = result["settings"], result["unit"]
        bits = settings["bits"]
        yield f"\n{settings['measure']}, {settings['checkpoint']}, {unit}; {settings['threads']} threads\n"
        yield row("", "median (least to most)", "over the best peer of its bits", "over the best peer")
        yield row(*["---"] * 4)
        samples = whole(result["samples"])
        for name, values in result["samples"].items():
            cells = ["", ""]
            if name in samples and name.startswith(OURS):
                peers = rivals(name, samples)
                same = {peer: found for peer, found in peers.items() if bits[peer] == bits[name]}
                cells = [against(values, same, unit), against(values, peers, unit)]
            yield row(name, spread(values) if name in samples else f"{values[0]:.4g}, too slow after a round", *cells)
        for name, reason in settings["failures"].items():
            yield f"\n{name} failed: {reason}"


def whole(samples: Samples) -> Samples:
    """Of those that were measured in every round."""
    most = max(map(len, samples.values()), default=0)
    return {name: values for name, values in samples.items() if len(values) == most}


def rivals(name: str, samples: Samples) -> Samples:
    """The peers of one of ours: in process in process; servers for a server, and engines that have none."""
    peers = {peer: values for peer, values in samples.items() if not peer.startswith(OURS)}
    if not name.endswith(SERVED):
        return {peer: values for peer, values in peers.items() if not peer.endswith(SERVED)}
    served = {engine_of(peer) for peer in peers if peer.endswith(SERVED)}
    return {peer: values for peer, values in peers.items() if peer.endswith(SERVED) or engine_of(peer) not in served}


def engine_of(name: str) -> str:
    return name.split(" ", 1)[0]


def best(samples: Samples, unit: str) -> str | None:
    """The name with the best median: of times the least, of rates the most."""
    pick: Callable[..., str] = min if unit == "s" else max
    return pick(samples, key=lambda name: statistics.median(samples[name])) if samples else None


def against(values: Sequence[float], peers: Samples, unit: str) -> str:
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
