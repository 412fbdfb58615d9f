"""Where the time of a prompt goes, op by op: random weights, 1,024 tokens in steps of 256, without the head.

    python bench/bench_prompt.py [--repeats 10] [--model SmolLM2-135M ...] [--format q4_0 ...]

Prints, for each op, its share of the time of all.
"""

import argparse
import os
import sys
from collections import Counter

import torch
from random_llama import FORMATS, SHAPES, Machine, RandomModel, Rows
from record import record

from dayzero.kernels.native.backend import SPIN_US
from dayzero.kernels.native.extension import best_instruction_set, module

PROMPT, STEP = 1024, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--model", nargs="+", choices=SHAPES, default=["SmolLM2-135M"])
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=["q4_0"])
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
            model = RandomModel(machine, SHAPES[model_name], format_name, most=step_at(PROMPT - STEP))
            prompt_ns(model)  # finds neither code nor buffers warm
            times_ns = [prompt_ns(model) for _ in range(args.repeats)]
            samples = {op: [times[op] / times.total() for times in times_ns] for op in times_ns[0]}
            settings = {"model": model_name, "format": format_name, "instruction_set": name, "threads": args.threads}
            record("prompt", samples, unit="share", settings=settings)


def step_at(position: int) -> Rows:
    return Rows(requests=1, rows_each=STEP, position=position)


def prompt_ns(model: RandomModel) -> Counter[str]:
    """Nanoseconds of a prompt by op."""
    found: Counter[str] = Counter()
    for position in range(0, PROMPT, STEP):
        model.read(step_at(position))
        for op, nanoseconds in model.run_body_timed():
            found[op] += nanoseconds
    return found


if __name__ == "__main__":
    main()
