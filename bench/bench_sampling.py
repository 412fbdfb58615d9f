"""What sampling costs a step: `python bench/bench_sampling.py [--rows 32] [--vocab 49152] [--threads 2]`.

All cases are interleaved. Logits are normal with ten tokens raised, which gives the figures of SmolLM2 on text that it
wrote: the likeliest token has 15 to 90 % (median 36 %), 20 to 1300 tokens lie within 8 nats of it, and top-p 0.95 at
temperature 0.7 keeps 1 to 80.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from record import record

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.logprobs import logprobs
from dayzero.sampling.sampler import Row, sample

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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=49_152)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=25)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    logits = made_logits(args.rows, args.vocab)
    rng = np.random.default_rng(1)
    prompt, output = rng.integers(0, args.vocab, 256).tolist(), rng.integers(0, args.vocab, 64).tolist()
    runs: dict[str, Callable[[], object]] = {}
    for name, params in CASES.items():
        rows = [Row(SamplingParams(max_tokens=999, seed=i, **params), prompt, output) for i in range(args.rows)]
        runs[name] = lambda rows=rows: sample(logits, rows)
    runs["logprobs, 5 alternatives"] = lambda: logprobs(logits, output[:1] * args.rows, [5] * args.rows)

    samples_s: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(args.repeats + 3):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if repeat >= 3:
                samples_s[name].append(time.perf_counter() - start)

    settings = {"rows": args.rows, "vocab": args.vocab, "threads": args.threads}
    record("sampling", samples_s, unit="s", settings=settings)


if __name__ == "__main__":
    main()
