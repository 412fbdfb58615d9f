"""Texts a second of an encoder beside transformers, in turns that begin with another one each time, in process.

    python bench/bench_embeddings.py [--repeats 7] [--model FOLDER]

The 80 first turns of MT-Bench, cut where they are longer than the encoder's context, are embedded by `LLM.embed` and by
transformers: in batches of 32 of like lengths, padded and masked, as its users do, and pooled by the mean; both in
bfloat16 and in float32, on all CPUs. The model is all-MiniLM-L6-v2, a folder as the hub has it.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from record import record
from transformers import AutoModel

from dayzero import LLM
from dayzero.workshop.bench.workloads.dataset import Question, read_rows

CACHE = Path.home() / ".cache/dayzero-models/minilm"
BATCH = 32

Embed = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--model", type=Path, help=f"default: what is in {CACHE}")
    args = parser.parse_args()
    folder = args.model or next((path.parent for path in sorted(CACHE.rglob("modules.json"))), None)
    if folder is None:
        sys.exit(f"error: no all-MiniLM-L6-v2 in {CACHE}")
    llms = {dtype: LLM(str(folder), dtype=dtype) for dtype in ("bfloat16", "float32")}
    tokens = [tokens_of(llms["float32"], row.turns[0]) for row in read_rows("mtbench.jsonl.gz", Question)]
    ways: dict[str, Embed] = {}
    for dtype, llm in llms.items():
        ways[f"dayzero {dtype}"] = partial(llm.embed, prompt_token_ids=tokens, pooling="mean")
        ways[f"transformers {dtype}"] = theirs(folder, getattr(torch, dtype), tokens)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(-1, args.repeats):  # the first warms up
        names = list(ways)
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            start_s = time.perf_counter()
            ways[name]()
            if repeat >= 0:
                samples[name].append(len(tokens) / (time.perf_counter() - start_s))
    settings = {"model": "all-MiniLM-L6-v2", "texts": len(tokens), "tokens": sum(map(len, tokens))}
    record("embeddings", samples, unit="texts/s", settings=settings)


def tokens_of(llm: LLM, text: str) -> list[int]:
    """Of a text, as the encoder was trained on it, cut before its last token."""
    tokens = llm.tokenizer.encode_text(text)
    return tokens if len(tokens) <= llm.spec.max_context else [*tokens[: llm.spec.max_context - 1], tokens[-1]]


def theirs(folder: Path, dtype: torch.dtype, tokens: Sequence[list[int]]) -> Embed:
    model = AutoModel.from_pretrained(folder, dtype=dtype).eval()
    by_length = sorted(tokens, key=len)

    def embed() -> object:
        found = []
        with torch.inference_mode():
            for start in range(0, len(by_length), BATCH):
                batch = by_length[start : start + BATCH]
                longest = max(map(len, batch))
                ids = torch.tensor([each + [0] * (longest - len(each)) for each in batch])
                mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in batch])
                states = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
                sums = (states * mask[..., None]).sum(1)
                found.append(torch.nn.functional.normalize(sums))
        return torch.cat(found)

    return embed


if __name__ == "__main__":
    main()
