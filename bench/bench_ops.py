"""Every op x shape x format beside torch and the machine's roof: time, bytes, operations, share of the roof, ratio.

    python bench/bench_ops.py                  measure all, a JSON line for each; about four minutes on a quiet machine
    python bench/bench_ops.py --store          the same, kept in bench/results/ops.jsonl for this processor; fails if an
                                               op comes out above the roof again and again, which is not kept
    python bench/bench_ops.py --check          measure some again; fail where a stored ratio got worse by over 10 %
    python bench/bench_ops.py --table          print what is stored as the tables of docs/performance.md

roofline_ratio  the roof's time over ours: 1 is all that the machine can do (see roofline.py)
torch_ratio     torch's time over ours: above 1 we are faster. torch computes in bfloat16, whatever our format, and its
                time includes a call from Python, which decides the shortest ops

Roof, op and torch's op are measured in turns. Only ratios are compared, never times. No op is faster than the machine:
a share above 1 says that the roof was measured in a busy moment, and before it is kept the case is measured again.
Threads are bound to CPUs (cpus.py), and those of one side sleep while the other's are measured.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when torch is loaded: its threads spin as long as in an engine

import torch
from cpus import apart, on_the_first
from op_cases import Case, Settings, Wanted, cases
from ops_check import RATIOS, TRIES, Key, Medians, above_roof, check, key_of
from ops_stored import keep, of_here, stored
from ops_table import tables
from random_llama import Machine
from record import Line, line_of, say
from roofline import Roofline

from dayzero.kernels.native.extension import INSTRUCTION_SETS, best_instruction_set, module

SPIN_US = 1000  # native threads stay awake over all that lies between a roof and its op
ASLEEP_S = 1.5e-3  # after which they are not
WARM_RUNS, WARM_S = 10, 0.002  # runs of what is warm, and the time after which there are fewer

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
    with on_the_first():
        run(Bench(args.instruction_set, args.threads, args.repeats), args)


def run(bench: "Bench", args: argparse.Namespace) -> None:
    if args.check:
        found = check({key_of(line["settings"]): line["median"] for line in stored() if of_here(line)}, bench.medians)
        print(found.report)
        sys.exit(0 if found.passed else 1)

    def wanted(settings: Settings) -> bool:
        return args.op in (None, settings["op"])

    if args.store:
        sys.exit(keep(bench.below_the_roof(wanted)))
    for line in bench.lines(wanted):
        say(line)


class Bench:
    """Measures cases on one pool of threads."""

    def __init__(self, instruction_set: str | None, threads: int, repeats: int) -> None:
        best, why_not = best_instruction_set()
        name = instruction_set or best
        native = module()
        if native is None or name is None:
            sys.exit(f"error: nothing to measure: {why_not}")
        torch.set_num_threads(threads)
        apart(torch.ones(1 << 20).sum)
        self._repeats = repeats
        self._fixed: Settings = {"instruction_set": name, "threads": threads}
        self._machine = Machine(native, name, apart(lambda: native.ThreadPool(threads, SPIN_US)))
        self._roofline = Roofline(native, self._machine.pool, name)

    def lines(self, wanted: Wanted) -> Iterator[Line]:
        """Of each case."""
        for case in cases(self._machine, wanted):
            ops = sum(case.work.ops.values())
            settings = {**self._settings(case), "cold": case.cold, "bytes": case.work.bytes, "operations": ops}
            yield line_of("op", self._measure(case), unit="us, ratio", settings=settings)

    def below_the_roof(self, wanted: Wanted) -> list[Line]:
        """Of each case, measured again later if it came out above the roof, which it still may."""
        found = {key_of(line["settings"]): line for line in self.lines(wanted)}
        for _ in range(TRIES - 1):
            above = {key for key, line in found.items() if above_roof(line["median"])}
            if above:
                found |= {key_of(line["settings"]): line for line in self.lines(self._in(above))}
        return list(found.values())

    def medians(self, keys: Collection[Key]) -> dict[Key, Medians]:
        """Of the cases that have these keys."""
        return {
            key_of(self._settings(case)): medians(self._measure(case)) for case in cases(self._machine, self._in(keys))
        }

    def _in(self, keys: Collection[Key]) -> Wanted:
        return lambda settings: key_of({**settings, **self._fixed}) in keys

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
                time.sleep(ASLEEP_S)
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


def medians(samples: Samples) -> Medians:
    return {name: statistics.median(values) for name, values in samples.items()}


if __name__ == "__main__":
    main()
