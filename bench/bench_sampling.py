"""What sampling costs a step: `python bench/bench_sampling.py [--rows 32] [--vocab 49152] [--threads 2]`.

All cases are interleaved, by numpy and, where native kernels can run, by them. `--cpu` counts the main thread's CPU
time instead, which neighbours disturb less; use it with one thread.

Logits are normal with ten tokens raised, which gives the figures of SmolLM2 on text that it wrote: the likeliest token
has 15 to 90 % (median 36 %), 20 to 1300 tokens lie within 8 nats of it, and top-p 0.95 at temperature 0.7 keeps 1 to
80.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from record import record

from dayzero.core.sampling import SamplingParams
from dayzero.kernels.native.backend import NativeKernels
from dayzero.kernels.native.extension import best_instruction_set
from dayzero.sampling.answers import Asked, Told, answer
from dayzero.sampling.native import NativeSampler
from dayzero.sampling.sampler import Row

CASES: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0.0},
    "temperature 0.7, top_p 0.95": {"temperature": 0.7, "top_p": 0.95},
    "temperature 1": {},
    "temperature 0.7, top_k 50": {"temperature": 0.7, "top_k": 50},
    "min_p 0.05": {"min_p": 0.05},
    "temperature 1.5, top_p 0.95": {"temperature": 1.5, "top_p": 0.95},
    "greedy, penalties": {"temperature": 0.0, "repetition_penalty": 1.1, "presence_penalty": 0.5},
}


def made_logits(num_rows: int, vocab_size: int) -> torch.Tensor:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((num_rows, vocab_size)) * 3.3
    for row in logits:
        row[np.argpartition(row, -10)[-10:]] += rng.exponential(1.2, 10)
    return torch.from_numpy(logits.astype(np.float32)).bfloat16().float()


def asked_of(num_rows: int, vocab_size: int) -> dict[str, list[Asked]]:
    """What is asked of the rows, case by case."""
    rng = np.random.default_rng(1)
    prompt, output = rng.integers(0, vocab_size, 256).tolist(), rng.integers(0, vocab_size, 64).tolist()
    cases: dict[str, list[Asked]] = {
        name: [Row(SamplingParams(max_tokens=999, seed=i, **params), prompt, output) for i in range(num_rows)]
        for name, params in CASES.items()
    }
    return cases | {"logprobs, 5 alternatives": [Told(output[0], 5)] * num_rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=49_152)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--cpu", action="store_true", help="CPU time of the main thread")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    now_s = time.thread_time if args.cpu else time.perf_counter

    logits = made_logits(args.rows, args.vocab)
    runs: dict[str, Callable[[], object]] = {}
    for name, asked in asked_of(args.rows, args.vocab).items():
        runs[f"{name}: numpy"] = lambda asked=asked: answer(logits, asked)
    if best_instruction_set()[0]:
        sampler = NativeSampler(NativeKernels(args.threads).vocabulary(), args.vocab)
        for name, asked in asked_of(args.rows, args.vocab).items():
            runs[f"{name}: native"] = lambda asked=asked: sampler.answer(logits.data_ptr(), sampler.packed(asked))

    samples_s: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(args.repeats + 3):
        for name, run in runs.items():
            start_s = now_s()
            run()
            if repeat >= 3:
                samples_s[name].append(now_s() - start_s)

    settings = {"rows": args.rows, "vocab": args.vocab, "threads": args.threads, "cpu_time": args.cpu}
    record("sampling", samples_s, unit="s", settings=settings)


if __name__ == "__main__":
    main()
