"""Every op x shape x format beside torch and the machine's roof: time, bytes, operations, share of the roof, ratio.

    python bench/bench_ops.py                  measure all, a JSON line for each; about four minutes
    python bench/bench_ops.py --store          the same, kept in bench/results/ops.jsonl for this processor; fails if an
                                               op comes out above the roof again and again, which is not kept
    python bench/bench_ops.py --check          measure some again; fail where a stored ratio got worse by over 10 %
    python bench/bench_ops.py --table          print what is stored as the tables of docs/performance.md

roofline_ratio  the roof's time over ours: 1 is all that the machine can do (see roofline.py)
torch_ratio     torch's time over ours: above 1 we are faster. torch computes in bfloat16, whatever our format, and its
                time includes a call from Python, which decides the shortest ops

Roof, op and torch's op are measured in turns, and all cases several times over, some time apart; of each side the best
time counts, since no accident makes a machine faster. Only ratios are compared, never times. A share above 1, by more
than noise (ops_check.py), says that the roof was never measured in a calm moment, and before it is kept the case is
measured again. Threads are each on a CPU of their own (cpus.py); those of one side sleep while the other is
measured.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping

os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when torch is loaded: its threads spin as long as in an engine

import torch
from cpus import apart, on_the_first
from op_cases import Case, Settings, Wanted, cases
from ops_check import TRIES, Figures, Key, above_roof, check, figures, key_of
from ops_stored import keep, of_here, stored
from ops_table import tables
from random_llama import Machine
from record import Line, line_of, say
from roofline import Roofline

from dayzero.kernels.native.extension import INSTRUCTION_SETS, best_instruction_set, module

SPIN_US = 1000  # native threads stay awake over all that lies between a roof and its op
ASLEEP_S = 1.5e-3  # after which they are not
SIDES = ("native_us", "roof_us", "torch_us")
WARM_RUNS, WARM_S = 10, 0.002  # runs of what is warm, and the time after which there are fewer

Samples = Mapping[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--store", action="store_true", help="keep the results")
    mode.add_argument("--check", action="store_true", help="compare with what was kept")
    mode.add_argument("--table", action="store_true", help="print what was kept")
    parser.add_argument("--instruction-set", choices=INSTRUCTION_SETS, help="default: the best that is there")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--op", help="measure this op only")
    parser.add_argument("--repeats", type=int, default=3, help="of a case, in turns")
    parser.add_argument("--passes", type=int, default=3, help="over all cases")
    args = parser.parse_args()
    if args.table:
        fixed = {"instruction_set": args.instruction_set or best_instruction_set()[0], "threads": args.threads}
        print("\n".join(tables([r for r in stored() if of_here(r) and fixed.items() <= r["settings"].items()])))
        return
    with on_the_first():
        run(Bench(args.instruction_set, args.threads, args.repeats), args)


def run(bench: "Bench", args: argparse.Namespace) -> None:
    if args.check:
        found = check({key_of(line["settings"]): line["best"] for line in stored() if of_here(line)}, bench.measure)
        print(found.report)
        sys.exit(0 if found.passed else 1)

    def wanted(settings: Settings) -> bool:
        return args.op in (None, settings["op"])

    if args.store:
        sys.exit(keep(bench.below_the_roof(wanted, args.passes)))
    for line in bench.lines(wanted, args.passes):
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
        self._samples: dict[Key, Samples] = {}
        self._settings: dict[Key, Settings] = {}
        self._fixed: Settings = {"instruction_set": name, "threads": threads}
        self._machine = Machine(native, name, apart(lambda: native.ThreadPool(threads, SPIN_US)))
        self._roofline = Roofline(native, self._machine.pool, name)

    def lines(self, wanted: Wanted, passes: int) -> list[Line]:
        """Of each case."""
        for _ in range(passes):
            self._measure_all(wanted)
        return [self._line(key) for key in self._samples]

    def below_the_roof(self, wanted: Wanted, passes: int) -> list[Line]:
        """Of each case, measured again if it came out above the roof, which it still may."""
        lines = self.lines(wanted, passes)
        for _ in range(TRIES - 1):
            above = [key_of(line["settings"]) for line in lines if above_roof(line["best"])]
            if above:
                lines = self.lines(self._in(above), 1)
        return lines

    def measure(self, keys: Collection[Key]) -> dict[Key, Figures]:
        """The cases that have these keys; those that were measured before count, too."""
        self._measure_all(self._in(keys))
        return {key: figures(self._samples[key]) for key in keys if key in self._samples}

    def _measure_all(self, wanted: Wanted) -> None:
        for case in cases(self._machine, wanted):
            ops = sum(case.work.ops.values())
            settings = {**case.settings, **self._fixed}
            key = key_of(settings)
            self._settings[key] = {**settings, "cold": case.cold, "bytes": case.work.bytes, "operations": ops}
            known = self._samples.setdefault(key, {name: [] for name in SIDES})
            for name, values in self._measure(case).items():
                known[name] += values

    def _line(self, key: Key) -> Line:
        samples = self._samples[key]
        line = line_of("op", samples, unit="us, ratio", settings=self._settings[key])
        return {**line, "best": {name: round(value, 6) for name, value in figures(samples).items()}}

    def _in(self, keys: Collection[Key]) -> Wanted:
        return lambda settings: key_of({**settings, **self._fixed}) in keys

    def _measure(self, case: Case) -> Samples:
        """In turns: the op, its roof, torch's op."""
        x = case.fed()
        samples: Samples = {name: [] for name in SIDES}
        with torch.inference_mode():
            for _ in range(self._repeats):
                roof_s = self._floor_s(case)
                native_s = self._native_s(case, x)
                time.sleep(ASLEEP_S)
                torch_s = self._torch_s(case, x)
                for name, seconds in zip(SIDES, (native_s, roof_s, torch_s), strict=True):
                    samples[name].append(seconds * 1e6)
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
    """The best of a few runs after one that is not counted."""
    first_s = run()
    return min(run() for _ in range(max(1, min(WARM_RUNS, int(WARM_S / first_s)))))


if __name__ == "__main__":
    main()
