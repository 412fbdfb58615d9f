"""How near many rows come to the peak of the machine's arithmetic.

python -m bench.peers.peak [--repeats 5] [--checkpoint NAME ...], from the root

A product takes two operations for each weight and row. product_ops, of all rows of a measure of measures.py, over the
peak of their kind of arithmetic is the least time that they can take. peak_ratio is that over the time of the measure:
1 is products at the peak and nothing beside them. Attention counts no operations here, but takes its time. The peak is
measured before and after each value, by threads that are each on a CPU of their own, and the better counts.

For the forms of dayzero's that are best at it, of checkpoints that make_models.py has made; no other engine is needed.
"""

import argparse
import gc
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bench.cpus import apart, on_the_first
from bench.peers.contenders import LLAMA_1B, ROOT, SMOLLM2, Contender
from bench.peers.measures import IN, LONG, MEASURES, OUT, Prompter, warm_up
from bench.peers.roof import InProcess, forms
from bench.record import record
from bench.roofline import Roofline
from dayzero import LLM
from dayzero.checkpoint.open import open_checkpoint
from dayzero.kernels.native.backend import SPIN_US
from dayzero.kernels.native.extension import best_instruction_set, module

FORMS: Mapping[str, Sequence[str]] = MappingProxyType({SMOLLM2: ("Q4_0", "int8", "bf16"), LLAMA_1B: ("Q4_0",)})
REQUESTS = 32
PREFILL, CONCURRENT = "prefill", f"concurrent-{REQUESTS}"
IN_BF16 = ("bf16", "nvfp4")  # forms whose products are in bfloat16; the others' are in int8
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--checkpoint", nargs="+", default=list(FORMS))
    args = parser.parse_args()
    native, (instruction_set, why_not) = module(), best_instruction_set()
    if native is None or instruction_set is None:
        parser.error(f"nothing to measure: {why_not}")
    pool = apart(lambda: native.ThreadPool(args.threads, SPIN_US))
    roofline = Roofline(native, pool, instruction_set)
    for checkpoint in args.checkpoint:
        for contender in forms(checkpoint):
            if contender.form in FORMS[checkpoint]:
                measure(contender, checkpoint, roofline, args)


def measure(contender: Contender, checkpoint: str, roofline: Roofline, args: argparse.Namespace) -> None:
    """Print a line for a form and each of the two measures."""
    path = ROOT / "models" / checkpoint / contender.model
    arithmetic = "bf16" if contender.form in IN_BF16 else "int8"
    llm = LLM(str(path), offline=True, threads=args.threads, **contender.options)
    engine = InProcess(llm)
    warm_up(engine, Prompter("warm"), [1, REQUESTS], served=False)
    for name, (tokens, ops) in work(*weights(path)).items():
        samples: dict[str, list[float]] = {"tokens_per_s": [], "ops_per_s": [], "peak_ratio": []}
        for repeat in range(args.repeats):
            before = peak_ops_per_s(roofline, arithmetic)
            tokens_per_s = MEASURES[name].take(engine, Prompter(f"peak {repeat}"))
            peak = max(before, peak_ops_per_s(roofline, arithmetic))
            values = (tokens_per_s, peak, ops / tokens * tokens_per_s / peak)
            for sample, value in zip(samples.values(), values, strict=True):
                sample.append(value)
        settings = {
            "checkpoint": checkpoint,
            "form": contender.form,
            "measure": name,
            "arithmetic": arithmetic,
            "product_ops": ops,
            "threads": args.threads,
        }
        record("peak", samples, unit="tokens/s, operations/s, ratio", settings=settings)
    del llm, engine
    gc.collect()  # before the next is loaded


def peak_ops_per_s(roofline: Roofline, arithmetic: str) -> float:
    with on_the_first():
        return roofline.ops_per_s(arithmetic)


def weights(path: Path) -> tuple[int, int]:
    """Of the layers' products, and of the head's."""
    sizes = {tensor.name: tensor.shape for tensor in open_checkpoint(path).tensors.values() if len(tensor.shape) == 2}
    layers = sum(rows * columns for name, (rows, columns) in sizes.items() if name not in (EMBEDDING, HEAD))
    rows, columns = sizes.get(HEAD, sizes[EMBEDDING])
    return layers, rows * columns


def work(layers: int, head: int) -> Mapping[str, tuple[int, int]]:
    """Tokens that a measure counts, and operations of all its products. The last output of a request is never read."""
    return {
        PREFILL: (LONG, 2 * (LONG * layers + head)),
        CONCURRENT: (REQUESTS * OUT, 2 * REQUESTS * ((IN + OUT - 1) * layers + OUT * head)),
    }


if __name__ == "__main__":
    main()
