"""dayzero beside other engines on the same checkpoint, in turns: `python -m bench.peers.run [options]`, from the root.

The engines of a session (contenders.py) are loaded once, then stopped; each runs only while it is measured. A round
takes each measure of each contender, starting with another contender each time, with the same prompts for all; a ratio
is of values of one round. JSON lines (bench/record.py) to stdout, the tables of bench/peers/table.py to stderr at the
end.
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

from bench.peers.contenders import (
    ROOT,
    SESSIONS,
    Contender,
    Session,
    command,
    environment,
    is_installed,
    load_options,
)
from bench.peers.measures import MEASURES, Prompter, left_out, warm_up
from bench.peers.process import PeerFailed, PeerProcess
from bench.peers.table import tables
from bench.record import Line, line_of
from bench.record import say as print_line
from bench.stored import keep


@dataclass(slots=True)
class Results:
    """Samples by measure and contender. A contender that fails is out from then on, with its reason."""

    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, set[str]] = field(default_factory=dict)  # by measure, after the first round

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

    def leave_out(self, measure: str) -> None:
        first = {name: values[0] for name, values in self.samples.get(measure, {}).items()}
        self.left_out[measure] = left_out(first, MEASURES[measure].keep_ratio)


@dataclass(frozen=True, slots=True)
class Lineup:
    """The contenders of a session and what they run on."""

    contenders: Sequence[Contender]
    checkpoint: str
    threads: int

    def start(self, contender: Contender) -> PeerProcess:
        log = ROOT / "logs" / f"{self.checkpoint}-{contender.name.replace(' ', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        variables = {} if contender.served else environment(contender.engine, self.threads)
        return PeerProcess(command(contender), variables, log)

    def load(self, process: PeerProcess, contender: Contender) -> None:
        model = ROOT / "models" / self.checkpoint / contender.model
        process.load(model, self.threads, load_options(contender, self.threads))

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
    lines: list[Line] = []
    for session in SESSIONS[args.checkpoint]:
        found = measured(session, args)
        for line in found:
            print_line(line)
        if args.store and found:
            keep(f"peers-{args.checkpoint}", found)
        lines += found
    with redirect_stdout(sys.stderr):
        print("\n".join(tables(lines)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--checkpoint", default="smollm2-135m", choices=SESSIONS, help="that make_models.py has made")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--starts", type=int, default=0, help="how often to start every contender, for `start`")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--measures", type=split, default=list(MEASURES), help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--contenders", type=split, default=[], help="parts of names, as in `dayzero Q4,llama.cpp`")
    parser.add_argument("--store", action="store_true", help="keep the results for docs/performance.md")
    return parser.parse_args()


def split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


def measured(session: Session, args: argparse.Namespace) -> list[Line]:
    """A line for each measure of a session that is wanted."""
    measures = [name for name in session.measures if name in args.measures]
    contenders = chosen(session, args) if measures else []
    lineup, results = Lineup(contenders, args.checkpoint, args.threads), Results()
    for _ in range(args.starts):
        for contender in contenders:
            results.add("start", contender, partial(lineup.first_token_s, contender))
    versions = rounds(lineup, measures, args.repeats, results)
    settings = {
        "checkpoint": args.checkpoint,
        "session": session.title,
        "threads": args.threads,
        "bits": {contender.name: contender.bits for contender in contenders},
        "versions": versions,
        "failures": results.failures,
    }
    return [
        line_of(
            "peers",
            {name: values for name, values in samples.items() if name not in results.failures},
            unit=MEASURES[measure].unit if measure in MEASURES else "s",
            settings={"measure": measure, **settings},
        )
        for measure, samples in results.samples.items()
    ]


def chosen(session: Session, args: argparse.Namespace) -> list[Contender]:
    """Those that are wanted by a part of their name, are installed and have their form of the checkpoint."""
    found = []
    for contender in session.contenders():
        if args.contenders and not any(part in contender.name for part in args.contenders):
            continue
        if not is_installed(contender):
            say(f"{contender.name}: not installed")
        elif not (ROOT / "models" / args.checkpoint / contender.model).exists():
            say(f"{contender.name}: no {contender.model} of {args.checkpoint}")
        elif contender.served and args.threads != len(os.sched_getaffinity(0)):
            say(f"{contender.name}: a server takes all cores")
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
                warm_up(process, Prompter("warm"), counts, served=contender.served)
        for number in range(repeats):
            for measure in measures:
                for contender in turned(lineup.contenders, number):
                    take_one(measure, contender, processes[contender.name], results, seed=f"{measure} {number}")
                if number == 0:
                    results.leave_out(measure)
        return {name: process.version for name, process in processes.items()}


def take_one(name: str, contender: Contender, process: PeerProcess, results: Results, seed: str) -> None:
    measure = MEASURES[name]
    if (
        contender.name in results.failures
        or contender.name in results.left_out.get(name, ())
        or (measure.needs_prefix_cache and not process.has_prefix_cache)
        or (contender.served and not measure.served)
    ):
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
    except PeerFailed as failure:
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
