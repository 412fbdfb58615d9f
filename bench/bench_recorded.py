"""The recorded step against the same ops called one by one from Python, and what more rows cost: random weights.

    python bench/bench_recorded.py [--repeats 30] [--only recorded|rows] [--model SmolLM2-135M ...] [--format q4_0 ...]

recorded  `run` against `run_op_by_op`: 1, 8 and 32 requests of one row each
rows      one sequence of 16 rows, and 16 sequences of one row, against one row; every row samples

Every request has 256 tokens before it. A step is the body and the head, without sampling. Vocabularies have 49,152
entries. Variants are run in turns; a ratio is to be taken turn by turn.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping

import torch
from random_llama import FORMATS, SHAPES, VOCABULARY, Machine, RandomModel, Rows
from record import record

from dayzero.kernels.native.backend import SPIN_US
from dayzero.kernels.native.extension import best_instruction_set, module

CONTEXT = 256
REQUESTS = (1, 8, 32)
STEPS = {
    "1 row": Rows(requests=1, rows_each=1, position=CONTEXT),
    "16 rows of one sequence": Rows(requests=1, rows_each=16, position=CONTEXT),
    "16 sequences": Rows(requests=16, rows_each=1, position=CONTEXT),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--only", choices=MEASURES, help="default: both")
    parser.add_argument("--model", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=["bf16", "int8", "q4_0", "q4_1", "nvfp4"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    name, why_not = best_instruction_set()
    native = module()
    if native is None or name is None:
        sys.exit(f"error: nothing to measure: {why_not}")
    torch.set_num_threads(1)
    machine = Machine(native, name, native.ThreadPool(args.threads, SPIN_US))
    for model_name in args.model:
        for format_name in args.format:
            # Room for the tallest of both: 32 requests, and 16 rows after the context.
            most = Rows(requests=max(REQUESTS), rows_each=16, position=CONTEXT)
            model = RandomModel(machine, SHAPES[model_name], format_name, most=most)
            settings = {
                "model": f"{model_name}, random weights",
                "vocabulary": VOCABULARY,
                "format": format_name,
                "context_tokens": CONTEXT,
                "ops": model.num_ops,
                "instruction_set": name,
                "threads": args.threads,
            }
            for measure in (args.only,) if args.only else MEASURES:
                MEASURES[measure](model, args.repeats, settings)


def recorded(model: RandomModel, repeats: int, settings: Mapping[str, object]) -> None:
    """Print a line for each number of requests."""
    for requests in REQUESTS:
        model.read(Rows(requests=requests, rows_each=1, position=CONTEXT))
        samples: dict[str, list[float]] = {"recorded": [], "op by op": []}
        for repeat in range(repeats + 1):
            for variant, run in (("recorded", model.run), ("op by op", model.run_op_by_op)):
                elapsed_us = timed_us(run)
                if repeat > 0:  # the first finds neither code nor buffers warm
                    samples[variant].append(elapsed_us)
        record("recorded", samples, unit="us", settings={**settings, "requests": requests})


def rows(model: RandomModel, repeats: int, settings: Mapping[str, object]) -> None:
    """Print a line."""
    samples: dict[str, list[float]] = {name: [] for name in STEPS}
    for repeat in range(repeats + 1):
        for name, step in STEPS.items():
            model.read(step)
            elapsed_us = timed_us(model.run)
            if repeat > 0:
                samples[name].append(elapsed_us)
    record("rows", samples, unit="us", settings=settings)


MEASURES = {"recorded": recorded, "rows": rows}


def timed_us(call: Callable[[], None]) -> float:
    start_s = time.perf_counter()
    call()
    return (time.perf_counter() - start_s) * 1e6


if __name__ == "__main__":
    main()
