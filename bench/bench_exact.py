"""What row invariance costs on torch's kernels: calls of probed heights against whatever height the library likes.

    python bench/bench_exact.py [--repeats 20] [--model PATH]

The loose variant gives each product all rows in one call, and elementwise ops likewise; attention is the same in both,
since its buckets are how a paged pool is read at all. Interleaved; one record for each kind of step.
"""

import argparse
import dataclasses
import time

import torch
from record import record
from torch import Tensor

from dayzero.checkpoint.locate import locate
from dayzero.core.spec import EngineConfig
from dayzero.engine.build import EnginePlan, plan_engine
from dayzero.kernels import reference
from dayzero.kernels.onednn import PackedWeight
from dayzero.kernels.registry import Kernels
from dayzero.kv.store import KVStore
from dayzero.models.loader import load
from dayzero.models.step import Step

BLOCK = 16
STEPS = {"1 token": (1, 128, 1), "32 tokens": (32, 192, 1), "prompt of 512": (1, 0, 512)}  # requests, context, tokens


def loose(kernels: Kernels) -> Kernels:
    """Any number of rows in one call."""

    def linear(x_TK: Tensor, weight: PackedWeight, bias_N: Tensor | None = None) -> Tensor:
        return weight.apply(x_TK, bias_N)

    return dataclasses.replace(kernels, linear=linear, silu_mul=reference.silu_mul, gelu_mul=reference.gelu_mul)


def step_of(plan: EnginePlan, requests: int, context: int, tokens: int) -> Step:
    """The same work as a step of the engine."""
    blocks = -(-(context + tokens) // BLOCK)
    tables = [list(range(1 + r * blocks, 1 + (r + 1) * blocks)) for r in range(requests)]
    positions = range(context, context + tokens)
    slots = [table[p // BLOCK] * BLOCK + p % BLOCK for table in tables for p in positions]
    starts = [r * tokens for r in range(requests + 1)]
    return Step(
        tokens=torch.randint(0, plan.shape.vocab_size, (requests * tokens,)),
        positions=torch.tensor([p for _ in tables for p in positions]),
        slots=tuple(torch.tensor(slots) for _ in plan.groups),
        plans=tuple(
            plan.kernels.plan_attention(starts, [context] * requests, tables, BLOCK, group.window)
            for group in plan.groups
        ),
        sample_at=torch.tensor([stop - 1 for stop in starts[1:]]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--model", help="default: the embedded one")
    args = parser.parse_args()
    path = locate(args.model, offline=False, progress=lambda *_: None)
    plan = plan_engine(EngineConfig(model=str(path), kernels="torch"))
    weights = load(plan.family, plan.shape, plan.checkpoint.tensors, plan.dtype, plan.kernels)
    store = KVStore(
        plan.groups,
        [1024] * len(plan.groups),
        BLOCK,
        plan.shape.heads,
        plan.dtype,
    )
    variants = {"exact": plan.kernels, "loose": loose(plan.kernels)}
    with torch.inference_mode():
        for name, (requests, context, tokens) in STEPS.items():
            step = step_of(plan, requests, context, tokens)
            samples: dict[str, list[float]] = {variant: [] for variant in variants}
            for repeat in range(args.repeats + 2):
                for variant, kernels in variants.items():
                    start_s = time.perf_counter()
                    hidden = plan.family.forward(weights, step, store, kernels)
                    plan.family.logits(weights, hidden.rows, kernels)
                    if repeat >= 2:
                        samples[variant].append(time.perf_counter() - start_s)
            record("exact", samples, unit="s", settings={"step": name, "model": path.name})


if __name__ == "__main__":
    main()
