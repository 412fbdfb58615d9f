"""Every op x shape x format beside torch and the machine's roof: time, bytes, operations, share of the roof, ratio.

    python bench/bench_ops.py                  measure all, a JSON line for each; about four minutes on a quiet machine
    python bench/bench_ops.py --store          the same, kept in bench/results/ops.jsonl for this processor
    python bench/bench_ops.py --check          measure some again; fail where a stored ratio got worse by over 10 %
    python bench/bench_ops.py --table          print what is stored as the tables of docs/performance.md

roofline_ratio  the roof's time over ours: 1 is all that the machine can do (see roofline.py)
torch_ratio     torch's time over ours: above 1 we are faster. torch computes in bfloat16, whatever our format, and its
                time includes a call from Python, which decides the shortest ops

Roof, op and torch's op are measured in turns. Only ratios are compared, never times.
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from op_cases import Case, Settings, Wanted, cases
from ops_check import RATIOS, Key, Medians, check, key_of
from ops_table import tables
from random_llama import Machine
from record import record
from roofline import Roofline

from dayzero.kernels.native.extension import INSTRUCTION_SETS, best_instruction_set, module
from dayzero.workshop.bench.provenance import machine as provenance

RESULTS = Path(__file__).parent / "results" / "ops.jsonl"
SPIN_US = 1000  # threads stay awake over all that lies between two measurements
WARM_RUNS, WARM_S = 10, 0.002  # runs of what is warm, and the time after which there are fewer

Result = dict[str, Any]  # a line
Samples = Mapping[str, Sequence[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--store", action="store_true", help="keep the results")
    mode.add_argument("--check", action="store_true", help="compare with what was kept")
    mode.add_argument("--table", action="store_true", help="print what was kept")
    parser.add_argument("--instruction-set", choices=INSTRUCTION_SETS, help="default: the best that is there")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--op", help="measure this op only")
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    if args.table:
        fixed = {"instruction_set": args.instruction_set or best_instruction_set()[0], "threads": args.threads}
        print("\n".join(tables([r for r in stored() if of_here(r) and fixed.items() <= r["settings"].items()])))
        return
    bench = Bench(args.instruction_set, args.threads, args.repeats)
    if args.check:
        found = check({key_of(line["settings"]): line["median"] for line in stored() if of_here(line)}, bench.medians)
        print(found.report)
        sys.exit(0 if found.passed else 1)
    with contextlib.redirect_stdout(io.StringIO()) if args.store else contextlib.nullcontext() as kept:
        bench.record(lambda settings: args.op in (None, settings["op"]))
    if kept is not None:
        store(kept.getvalue().splitlines())


class Bench:
    """Measures cases on one pool of threads."""

    def __init__(self, instruction_set: str | None, threads: int, repeats: int) -> None:
        best, why_not = best_instruction_set()
        name = instruction_set or best
        native = module()
        if native is None or name is None:
            sys.exit(f"error: nothing to measure: {why_not}")
        torch.set_num_threads(threads)
        self._repeats = repeats
        self._fixed: Settings = {"instruction_set": name, "threads": threads}
        self._machine = Machine(native, name, native.ThreadPool(threads, SPIN_US))
        self._roofline = Roofline(native, self._machine.pool, name)

    def record(self, wanted: Wanted) -> None:
        """Print a line for each case."""
        for case in cases(self._machine, wanted):
            ops = sum(case.work.ops.values())
            settings = {**self._settings(case), "cold": case.cold, "bytes": case.work.bytes, "operations": ops}
            record("op", self._measure(case), unit="us, ratio", settings=settings)

    def medians(self, keys: Collection[Key]) -> dict[Key, Medians]:
        """Of the cases that have these keys."""
        return {
            key_of(self._settings(case)): {name: statistics.median(v) for name, v in self._measure(case).items()}
            for case in cases(self._machine, lambda settings: key_of({**settings, **self._fixed}) in keys)
        }

    def _settings(self, case: Case) -> Settings:
        return {**case.settings, **self._fixed}

    def _measure(self, case: Case) -> Samples:
        """In turns: the roof, the op, torch's op."""
        x = case.fed()
        samples: dict[str, list[float]] = {name: [] for name in ("native_us", "roof_us", "torch_us", *RATIOS)}
        with torch.inference_mode():
            for _ in range(self._repeats):
                roof_s = self._floor_s(case)
                native_s = self._native_s(case, x)
                torch_s = self._torch_s(case, x)
                found = (native_s * 1e6, roof_s * 1e6, torch_s * 1e6, roof_s / native_s, torch_s / native_s)
                for name, value in zip(samples, found, strict=True):
                    samples[name].append(value)
        return samples

    def _floor_s(self, case: Case) -> float:
        if case.cold:
            self._roofline.evict()
        return self._roofline.floor_s(case.work, cold=case.cold)

    def _native_s(self, case: Case, x: torch.Tensor) -> float:
        def run() -> float:
            return sum(nanoseconds for _, nanoseconds in case.program.run_timed()) * 1e-9

        if not case.cold:
            return warm(run)
        self._roofline.evict()
        self._roofline.warm(x)
        return run()

    def _torch_s(self, case: Case, x: torch.Tensor) -> float:
        def run() -> float:
            start_s = time.perf_counter()
            case.torch()
            return time.perf_counter() - start_s

        if not case.cold:
            return warm(run)
        self._roofline.evict_by_torch()
        x.sum()
        if case.torch_small is not None:
            case.torch_small()
        return run()


def warm(run: Callable[[], float]) -> float:
    """The median of a few runs after one that is not counted."""
    first_s = run()
    return statistics.median(run() for _ in range(max(1, min(WARM_RUNS, int(WARM_S / first_s)))))


# -- what is stored ---------------------------------------------------------------------------------------------------


def stored() -> list[Result]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def of_here(line: Result) -> bool:
    """Whether a result is of this model of processor."""
    return bool(line["machine"]["cpu"] == provenance()["cpu"])


def store(lines: Sequence[str]) -> None:
    """Keep the medians of these, and those of other processors and settings."""
    new: list[Result] = [json.loads(line) for line in lines]
    replaced = {key_of(line["settings"]) for line in new}
    kept = [line for line in stored() if not of_here(line) or key_of(line["settings"]) not in replaced]
    for line in new:
        del line["samples"]  # as many bytes as all the rest
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in (*kept, *new)))


if __name__ == "__main__":
    main()
