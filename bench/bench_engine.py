"""The engine beside transformers `generate`, on the same bfloat16 weights, in one process, interleaved.

python bench/bench_engine.py [--repeats 5] [--model PATH]

single       tokens/s of one request, 128 random tokens in, 128 out, greedy
concurrent   output tokens/s of 32 such requests together (transformers: one static batch of 32)
ttft         time to first token of a 1,024-token prompt, unseen and with its first 960 tokens seen just before
prefill      1,024 / the former
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import transformers
from record import record

from dayzero import LLM
from dayzero.checkpoint.open import open_checkpoint
from dayzero.quant.dequantize import dequantize

IN, OUT, CONCURRENT, LONG, SEEN = 128, 128, 32, 1024, 960


def reference(path: Path) -> transformers.PreTrainedModel:
    """transformers' model of the same checkpoint, from our dequantised weights."""
    checkpoint = open_checkpoint(path)
    config = transformers.AutoConfig.for_model(**checkpoint.config)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    weights = {name: dequantize(tensor, torch.bfloat16) for name, tensor in checkpoint.tensors.items()}
    if checkpoint.config["tie_word_embeddings"]:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    real = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # its buffers are not on meta
    real.load_state_dict(model.state_dict(), assign=True)
    return real.eval()


def timed(call: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


class Bench:
    def __init__(self, llm: LLM, model: transformers.PreTrainedModel, seed: int) -> None:
        self.llm = llm
        self.model = model
        self.random = random.Random(seed)

    def prompt(self, length: int) -> list[int]:
        """Random tokens: no two share a prefix."""
        return [self.random.randrange(100, self.llm.spec.vocab_size - 100) for _ in range(length)]

    def ours(self, prompts: Sequence[list[int]]) -> float:
        """Output tokens per second."""
        options = {"max_tokens": OUT, "ignore_eos": True, "temperature": 0.0}
        seconds = timed(lambda: self.llm.generate(prompt_token_ids=prompts, **options))
        return len(prompts) * OUT / seconds

    def theirs(self, prompts: Sequence[list[int]]) -> float:
        with torch.inference_mode():
            seconds = timed(
                lambda: self.model.generate(
                    torch.tensor(prompts), max_new_tokens=OUT, min_new_tokens=OUT, do_sample=False, pad_token_id=0
                )
            )
        return len(prompts) * OUT / seconds

    def ttft(self, prompt: list[int]) -> float:
        return timed(lambda: self.llm.generate(prompt_token_ids=[prompt], max_tokens=1, temperature=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", help="default: the embedded one")
    args = parser.parse_args()
    llm = LLM(args.model, precision="bf16")  # the weights that transformers has
    bench = Bench(llm, reference(Path(llm.spec.model)), seed=1)
    bench.ours([bench.prompt(IN)])
    bench.theirs([bench.prompt(IN)])
    single: dict[str, list[float]] = {"dayzero": [], "transformers": []}
    concurrent: dict[str, list[float]] = {"dayzero": [], "transformers": []}
    ttft: dict[str, list[float]] = {"unseen": [], "seen": []}
    for _ in range(args.repeats):
        single["dayzero"].append(bench.ours([bench.prompt(IN)]))
        single["transformers"].append(bench.theirs([bench.prompt(IN)]))
        many = [bench.prompt(IN) for _ in range(CONCURRENT)]
        concurrent["transformers"].append(bench.theirs(many))
        concurrent["dayzero"].append(bench.ours(many))
        long = bench.prompt(LONG)
        ttft["unseen"].append(bench.ttft(long))
        ttft["seen"].append(bench.ttft(long[:SEEN] + bench.prompt(LONG - SEEN)))
    settings = {"model": Path(llm.spec.model).name, "dtype": "bfloat16", "threads": llm.spec.threads}
    shape = {**settings, "input_tokens": IN, "output_tokens": OUT}
    record("single", single, unit="tokens/s", settings=shape)
    record("concurrent", concurrent, unit="tokens/s", settings={**shape, "requests": CONCURRENT})
    record("ttft", ttft, unit="s", settings={**settings, "input_tokens": LONG, "seen_tokens": SEEN})
    record("prefill", {"dayzero": [LONG / s for s in ttft["unseen"]]}, unit="tokens/s", settings=settings)


if __name__ == "__main__":
    main()
