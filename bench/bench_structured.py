"""What grammars cost 32 requests, each with a schema of its own, in process on the embedded model and native kernels.

    python bench/bench_structured.py [--repeats 7] [--precision as-stored]

Output tokens/s of 32 requests of 128 random tokens in, bound by 32 of the public schemas (docs/quality.md), against the
same requests that are free and end after as many tokens; in turns that begin with another one each time. The engine has
followed the schemas before, or has not: then it compiles them within the time that is measured. They are the first 32
under which the model writes at least 96 tokens of 128.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, from anywhere

from bench.record import record  # noqa: E402
from bench.suites.cases import WHY_NOT, folder, json_schema_bench, kimi  # noqa: E402
from dayzero.checkpoint.locate import locate  # noqa: E402
from dayzero.checkpoint.open import open_checkpoint  # noqa: E402
from dayzero.clock import SystemClock  # noqa: E402
from dayzero.core.constraint import Constraint  # noqa: E402
from dayzero.core.sampling import SamplingParams  # noqa: E402
from dayzero.core.spec import EngineConfig  # noqa: E402
from dayzero.engine.build import build_engine  # noqa: E402
from dayzero.engine.engine import Engine  # noqa: E402
from dayzero.grammar.lark import Lark  # noqa: E402
from dayzero.text.tokenizer import Tokenizer  # noqa: E402
from dayzero.wire.messages import Submit  # noqa: E402

REQUESTS, IN, MOST, LEAST = 32, 128, 128, 96


@dataclass(frozen=True, slots=True)
class Task:
    """A grammar, and how many tokens the model writes under it."""

    grammar: str
    length: int = MOST


class Bench:
    def __init__(self, engine: Engine, policy_version: str) -> None:
        self._engine = engine
        self._policy_version = policy_version
        self._number = 0

    def run(self, tasks: Sequence[Task], *, bound: bool, seed: str) -> tuple[float, list[int]]:
        """Seconds until all have ended, and how many tokens each has, 0 for one that failed."""
        draw = random.Random(seed)
        prompts = [draw.choices(range(1000, 40000), k=IN) for _ in tasks]
        first = self._number
        self._number += len(tasks)
        start_s = time.perf_counter()
        for i, (task, prompt) in enumerate(zip(tasks, prompts, strict=True)):
            self._engine.submit(self._submit(first + i, task, prompt, bound=bound))
        lengths = [0] * len(tasks)
        while self._engine.has_work:
            report = self._engine.step()
            for event in report.events if report is not None else ():
                lengths[event.request_id - first] += len(event.tokens)
                if event.error is not None:
                    lengths[event.request_id - first] = 0
        return time.perf_counter() - start_s, lengths

    def _submit(self, number: int, task: Task, prompt: list[int], *, bound: bool) -> Submit:
        params = SamplingParams(max_tokens=task.length, temperature=0.0, seed=0, ignore_eos=not bound)
        constraint = Constraint(grammar=task.grammar) if bound else None
        return Submit(
            request_id=number,
            prompt=prompt,
            params=params,
            salt="",
            policy_version=self._policy_version,
            constraint=constraint,
        )


def chosen(bench: Bench, schemas: Sequence[Mapping[str, object]]) -> list[Task]:
    """The first that keep the model writing. Their prompts are those of no measured run: lengths are bounds there."""
    found: list[Task] = []
    for start in range(0, len(schemas), REQUESTS):
        tasks = [Task(grammar_of(schema)) for schema in schemas[start : start + REQUESTS]]
        _, lengths = bench.run(tasks, bound=True, seed=f"choose {start}")
        found += [task for task, length in zip(tasks, lengths, strict=True) if length >= LEAST]
        if len(found) >= REQUESTS:
            break
    return found[:REQUESTS]


def grammar_of(schema: Mapping[str, object]) -> str:
    lark = Lark({})
    return lark.source(lark.schema(schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--precision", default="as-stored")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    data = folder()
    if data is None:
        sys.exit(f"error: {WHY_NOT}")
    path = locate(None, offline=True, progress=lambda *_: None)
    config = EngineConfig(
        model=str(path), kernels="native", precision=args.precision, threads=args.threads, prefix_cache=False
    )
    engine, spec = build_engine(config, SystemClock(), lambda *_: None)
    engine.learn(Tokenizer.from_source(open_checkpoint(path).tokenizer).to_json())
    bench = Bench(engine, spec.policy_version)
    tasks = chosen(bench, [case.schema for case in (*json_schema_bench(data), *kimi(data))])
    samples: dict[str, list[float]] = {"bound": [], "bound by new ones": [], "free": []}
    for repeat in range(args.repeats):
        seed = f"repeat {repeat}"
        _, lengths = bench.run(tasks, bound=True, seed=seed)  # outputs are a function of prompt and grammar alone
        alike = [replace(task, length=max(1, length)) for task, length in zip(tasks, lengths, strict=True)]
        new = [replace(task, grammar=f"{task.grammar}\n// {repeat}\n") for task in alike]  # as the cache sees it
        names = list(samples)
        for name in names[repeat % 3 :] + names[: repeat % 3]:
            if name == "bound":  # again: new ones may have taken their places
                bench.run(alike, bound=True, seed=seed)
            is_new = name == "bound by new ones"
            seconds, found = bench.run(new if is_new else alike, bound=name != "free", seed=seed)
            samples[name].append(sum(found) / seconds)
    settings = {"precision": spec.precision, "requests": len(tasks), "input_tokens": IN, "output_tokens": MOST}
    record("structured", samples, unit="tokens/s", settings={**settings, "threads": args.threads})


if __name__ == "__main__":
    main()
