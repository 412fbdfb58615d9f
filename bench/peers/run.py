"""dayzero beside other engines on the same checkpoint, in turns: `python -m bench.peers.run [options]`, from the root.

Every engine is loaded once, then stopped; it runs only while it is measured. A round takes each measure of each
contender, starting with another contender each time, with the same prompts for all; a ratio is of values of one round.
JSON lines (bench/record.py) to stdout, the tables of bench/peers/table.py to stderr at the end.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial

from bench.peers.contenders import CONTENDERS, ROOT, Contender, command, environment, is_installed
from bench.peers.measures import MEASURES, Prompter, warm_up
from bench.peers.process import PeerFailed, PeerProcess
from bench.peers.table import tables
from bench.record import record


@dataclass(slots=True)
class Results:
    """Samples by measure and contender. A contender that fails is out from then on, with its reason."""

    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, measure: str, contender: Contender, take: Callable[[], float]) -> None:
        if contender.name in self.failures:
            return
        start_s = time.perf_counter()
        try:
            value = take()
        except PeerFailed as failure:
            self.failures[contender.name] = str(failure)
            say(f"{measure:14} {contender.name:18} failed: {failure}")
            return
        self.samples.setdefault(measure, {}).setdefault(contender.name, []).append(value)
        say(f"{measure:14} {contender.name:18} {value:10.3f}   {time.perf_counter() - start_s:6.1f} s")


@dataclass(frozen=True, slots=True)
class Lineup:
    """The contenders of a run and what they run on."""

    contenders: Sequence[Contender]
    checkpoint: str
    threads: int

    def start(self, contender: Contender) -> PeerProcess:
        log = ROOT / "logs" / f"{self.checkpoint}-{contender.name.replace(' ', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return PeerProcess(command(contender.engine), environment(contender.engine, self.threads), log)

    def load(self, process: PeerProcess, contender: Contender) -> None:
        process.load(ROOT / "models" / self.checkpoint / contender.model, self.threads, contender.options)

    def first_token_s(self, contender: Contender) -> float:
        """From the start of a process to its first token, its files in the page cache."""
        start_s = time.perf_counter()
        with self.start(contender) as process:
            self.load(process, contender)
            process.generate([Prompter("start").prompt(16)], 1)
            return time.perf_counter() - start_s


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as Ctrl-C: a stopped peer would never end by itself
    args = arguments()
    contenders = chosen(args.contenders, args.checkpoint)
    lineup = Lineup(contenders, args.checkpoint, args.threads)
    results = Results()
    for _ in range(args.starts):
        for contender in contenders:
            results.add("start", contender, partial(lineup.first_token_s, contender))
    versions = rounds(lineup, args.measures, args.repeats, results)
    settings = {
        "checkpoint": args.checkpoint,
        "threads": args.threads,
        "bits": {contender.name: contender.bits for contender in contenders},
        "versions": versions,
        "failures": results.failures,
    }
    lines = []
    for measure, samples in results.samples.items():
        unit = MEASURES[measure].unit if measure in MEASURES else "s"
        whole = {name: values for name, values in samples.items() if name not in results.failures}
        record("peers", whole, unit=unit, settings={"measure": measure, **settings})
        lines.append({"settings": {"measure": measure, **settings}, "unit": unit, "samples": whole})
    with redirect_stdout(sys.stderr):
        print("\n".join(tables(lines)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--checkpoint", default="smollm2-135m", help="a folder that make_models.py has made")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--starts", type=int, default=0, help="how often to start every contender, for `start`")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--measures", type=split, default=list(MEASURES), help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--contenders", type=split, default=[], help="parts of names, as in `dayzero Q4,llama.cpp`")
    return parser.parse_args()


def split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


def chosen(parts: Sequence[str], checkpoint: str) -> list[Contender]:
    """Those with one of `parts` in the name that are installed and have their form of the checkpoint."""
    found = []
    for contender in CONTENDERS:
        if parts and not any(part in contender.name for part in parts):
            continue
        if not is_installed(contender.engine):
            say(f"{contender.name}: not installed")
        elif not (ROOT / "models" / checkpoint / contender.model).exists():
            say(f"{contender.name}: no {contender.model} of {checkpoint}")
        else:
            found.append(contender)
    return found


def rounds(lineup: Lineup, measures: Sequence[str], repeats: int, results: Results) -> dict[str, str]:
    """Take the measures in turns; return the version of each engine."""
    counts = [1, *(int(name.split("-")[1]) for name in measures if name.startswith("concurrent-"))]
    with ExitStack() as stack:
        processes = {}
        for contender in lineup.contenders:
            process = stack.enter_context(lineup.start(contender))
            processes[contender.name] = process
            with running(process, contender, results):
                lineup.load(process, contender)
                warm_up(process, Prompter("warm"), counts)
        for number in range(repeats):
            for measure in measures:
                for contender in turned(lineup.contenders, number):
                    take_one(measure, contender, processes[contender.name], results, seed=f"{measure} {number}")
        return {name: process.version for name, process in processes.items()}


def take_one(name: str, contender: Contender, process: PeerProcess, results: Results, seed: str) -> None:
    measure = MEASURES[name]
    if contender.name in results.failures or (measure.needs_prefix_cache and not process.has_prefix_cache):
        return
    with running(process, contender, results):
        process.generate([Prompter(f"wake {seed}").prompt(16)], 4)  # it has been stopped: its threads, its caches
        results.add(name, contender, lambda: measure.take(process, Prompter(seed)))


@contextmanager
def running(process: PeerProcess, contender: Contender, results: Results) -> Iterator[None]:
    """Let a stopped process run meanwhile."""
    try:
        process.resume()
        yield
        process.suspend()
    except (PeerFailed, ProcessLookupError) as failure:
        results.failures.setdefault(contender.name, str(failure))
        say(f"{contender.name} failed: {failure}")


def turned(contenders: Sequence[Contender], number: int) -> list[Contender]:
    start = number % max(len(contenders), 1)
    return [*contenders[start:], *contenders[:start]]


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
