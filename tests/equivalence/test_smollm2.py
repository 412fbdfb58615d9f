"""Law 1 on the embedded model: real weights, real text, all kernels; see `test_tiny`."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest
import torch

from dayzero.checkpoint.open import open_checkpoint
from dayzero.text.tokenizer import Tokenizer
from dayzero.workshop.bench.workloads.dataset import ordinary_text
from tests.equivalence.batching import known_requests, serve
from tests.equivalence.loaded import Loaded, by_kernels

pytestmark = pytest.mark.model

BATCHINGS = int(os.environ.get("DAYZERO_BATCHINGS", "102")) // 34


@pytest.mark.timeout(200 + 20 * BATCHINGS)
@by_kernels
def test_any_way_to_serve_a_request_gives_the_answer_it_has_alone(
    smollm2: Path, dtype: torch.dtype, wish: str, precision: str, kv_dtype: torch.dtype
) -> None:
    loaded = Loaded(smollm2, dtype, max_context=1024, wish=wish, precision=precision, kv_dtype=kv_dtype)
    text = Tokenizer.from_source(open_checkpoint(smollm2).tokenizer).encode_prompt(ordinary_text())
    draw = random.Random(0)
    stems = [text[start : start + 300] for start in (draw.randrange(len(text) - 300) for _ in range(2))]
    kinds = [
        known_requests(loaded, stems, count=count, max_prompt=max_prompt, max_tokens=max_tokens)
        for count, max_prompt, max_tokens in ((4, 40, 12), (1, 300, 4))
    ]
    happened = Counter()
    for seed in range(BATCHINGS):
        happened += serve(loaded, kinds, seed=seed, most=5)
    assert happened["requests"] > BATCHINGS
    assert happened["hit"]
