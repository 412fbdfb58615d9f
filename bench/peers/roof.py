"""How near a single stream comes to the roof of the machine: `python -m bench.peers.roof [--repeats 7]`, from the root.

A token has to read every weight once and the KV before it. token_bytes, of a request of measures.py at half its output,
over the machine's bandwidth for memory of that size, read again and again by as many threads, each on a CPU of its own,
is the roof's time.
roof_ratio is that over the time of a token of `decode`: 1 is all that the machine can do. The bandwidth is measured
before and after each decode, and the better counts.

For every form of dayzero's whose checkpoint make_models.py has made; no other engine is needed.
"""

import argparse
import gc
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from bench.cpus import apart, on_the_first
from bench.peers.contenders import IN_PROCESS, LLAMA_1B, OURS, ROOT, SMOLLM2, Contender
from bench.peers.measures import IN, OUT, Prompter, decode
from bench.record import record
from dayzero import LLM
from dayzero.core.spec import EngineSpec
from dayzero.kernels.native.backend import SPIN_US
from dayzero.kernels.native.extension import module

LINE_BYTES = 64
READS = 7  # the best of which counts: no accident makes a machine faster


class InProcess:
    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def generate(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> float:
        start_s = time.perf_counter()
        self._llm.generate(prompt_token_ids=prompts, max_tokens=output_tokens, ignore_eos=True, temperature=0.0)
        return time.perf_counter() - start_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--checkpoint", nargs="+", default=[SMOLLM2, LLAMA_1B])
    args = parser.parse_args()
    pool = apart(lambda: module().ThreadPool(args.threads, SPIN_US))
    for checkpoint in args.checkpoint:
        for contender in forms(checkpoint):
            measure(contender, checkpoint, pool, args)


def forms(checkpoint: str) -> Iterator[Contender]:
    for contender in IN_PROCESS:
        if contender.name.startswith(OURS) and (ROOT / "models" / checkpoint / contender.model).exists():
            yield contender


def measure(contender: Contender, checkpoint: str, pool: Any, args: argparse.Namespace) -> None:
    """Print a line for a form."""
    path = ROOT / "models" / checkpoint / contender.model
    llm = LLM(str(path), offline=True, threads=args.threads, **contender.options)
    engine = InProcess(llm)
    token_bytes = llm.spec.weight_bytes + kv_bytes(llm.spec)
    memory = torch.ones(token_bytes // LINE_BYTES * LINE_BYTES, dtype=torch.uint8)
    samples: dict[str, list[float]] = {"tokens_per_s": [], "bytes_per_s": [], "roof_ratio": []}
    decode(engine, Prompter("warm"))
    for repeat in range(args.repeats):
        before = bytes_per_s(pool, memory)
        tokens_per_s = decode(engine, Prompter(f"roof {repeat}"))
        bandwidth = max(before, bytes_per_s(pool, memory))
        for name, value in zip(samples, (tokens_per_s, bandwidth, tokens_per_s * token_bytes / bandwidth), strict=True):
            samples[name].append(value)
    settings = {
        "checkpoint": checkpoint,
        "form": contender.form,
        "weight_bytes": llm.spec.weight_bytes,
        "token_bytes": token_bytes,
        "threads": args.threads,
    }
    record("roof", samples, unit="tokens/s, bytes/s, ratio", settings=settings)
    del llm, engine, memory
    gc.collect()  # before the next is loaded


def kv_bytes(spec: EngineSpec) -> int:
    """That a token reads in the middle of its output; every checkpoint here has one cache group."""
    return spec.kv_bytes // (spec.kv_blocks * spec.block_size) * (IN + OUT // 2)


def bytes_per_s(pool: Any, memory: torch.Tensor) -> float:
    """Once to bring it in, then the best."""
    native = module()
    with on_the_first():
        return max(float(native.read_bytes_per_s(pool, memory.data_ptr(), memory.nbytes)) for _ in range(READS + 1))


if __name__ == "__main__":
    main()
