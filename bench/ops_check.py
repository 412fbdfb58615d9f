"""Whether ops got worse: ratios of one run against stored ones, never times. Knows nothing of how they are measured.

Whoever shares a machine's memory moves the ratios of a moment by tenths, for minutes. So an op is worse only if nothing
that is measured now comes within a tenth of what three in four of the stored measurements reached.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ops_table import SHORT_US

TOLERANCE = 1.10
TRIES = 3  # of a case that looks worse, or better than the machine can do: noise passes
AT_ROOF = 1.05  # an op that is so near: the best times of two reads of the same bytes lie as far apart
RATIOS = {"roofline": "roof_us", "torch": "torch_us"}  # of a side's time over ours: the more, the better

Figures = Mapping[str, float]  # best times of each side in us, and ratios: of these, and a low and the highest of turns
Key = str  # what a result is a result of


@dataclass(frozen=True, slots=True)
class Verdict:
    passed: bool
    report: str


def check(before: Mapping[Key, Figures], measure: Callable[[Collection[Key]], Mapping[Key, Figures]]) -> Verdict:
    """Measure some of the stored cases; again those with a ratio that is worse, which fail if it stays so.

    measure  some or all of the cases that it is given: those that there are with its threads and instruction set
    """
    if not before:
        return Verdict(False, _nothing("is stored for this processor"))
    suspects = {key for key, found in before.items() if found["native_us"] >= SHORT_US and _in_check(key)}
    if not suspects:
        why = f"of the {len(before)} stored ops is checked: each takes under {SHORT_US:g} us, or is of a size left out"
        return Verdict(False, _nothing(why))
    best: dict[Key, dict[str, float]] = {}
    for _ in range(TRIES):
        measured = measure(suspects)
        for key, found in measured.items():
            known = best.get(key, found)
            best[key] = {f"{ratio}_high": max(known[f"{ratio}_high"], found[f"{ratio}_high"]) for ratio in RATIOS}
        suspects = {key for key in measured if worse(before[key], best[key])}
        if not suspects:
            break
    if not best:
        return Verdict(False, _nothing("is stored for these threads and this instruction set"))
    if not suspects:
        return Verdict(True, f"{len(best)} ops: none is over {TOLERANCE - 1:.0%} worse than stored")
    lines = [
        f"worse: {ratio} ratio {best[key][f'{ratio}_high']:.3g}, stored {before[key][f'{ratio}_low']:.3g}: {key}"
        for key in sorted(suspects)
        for ratio in worse(before[key], best[key])
    ]
    lines.append(f"error: {len(suspects)} of {len(best)} ops are over {TOLERANCE - 1:.0%} worse, {TRIES} times")
    return Verdict(False, "\n".join(lines))


def figures(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Of the times of each side in us, turn by turn. An op at its roof shows what the roof is."""
    best = {side: min(times) for side, times in samples.items()}
    if 1 < best["roof_us"] / best["native_us"] <= AT_ROOF:
        best["roof_us"] = best["native_us"]
    found = dict(best)
    for ratio, side in RATIOS.items():
        found[f"{ratio}_ratio"] = best[side] / best["native_us"]
        turns = sorted(other / native for other, native in zip(samples[side], samples["native_us"], strict=True))
        found[f"{ratio}_low"], found[f"{ratio}_high"] = turns[len(turns) // 4], turns[-1]
    return found


def above_roof(found: Figures) -> bool:
    """Whether a case that is not short came out faster than the machine is, so that its roof came out too low."""
    return found["native_us"] >= SHORT_US and found["roofline_ratio"] > 1


def worse(before: Figures, now: Figures) -> list[str]:
    """The ratios that are."""
    return [ratio for ratio in RATIOS if now[f"{ratio}_high"] * TOLERANCE < before[f"{ratio}_low"]]


def key_of(settings: Mapping[str, object]) -> Key:
    """Without what follows from the rest."""
    measured = {name: value for name, value in settings.items() if name not in ("cold", "bytes", "operations")}
    return json.dumps(measured, sort_keys=True)


def _nothing(why: str) -> str:
    return f"error: nothing {why}\nhint: python bench/bench_ops.py --store on a quiet machine"


def _in_check(key: Key) -> bool:
    """A part of all cases that takes about a minute."""
    settings = json.loads(key)
    if settings["op"] == "attention":
        return settings["requests"] in (1, 8) and settings["behind"] != 4095
    small = settings["model"] == "SmolLM2-135M"
    if settings["op"] == "linear" and not small:
        return settings["weight"] == "gate_up" and settings["rows"] in (1, 16)
    return small and settings["rows"] in (1, 16, 32, 128)
