"""Law 1 on small seeded models: however a request is served, its tokens and log-probabilities are those it has alone.

Equal to the last bit, with all kernels. DAYZERO_BATCHINGS says how many ways to serve are tried in all.
"""

import os
import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.equivalence.batching import known_requests, serve
from tests.equivalence.loaded import Loaded, by_kernels
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

GEMMA3 = TINY["gemma3"]
MODELS = {
    "llama": TINY["llama untied, one KV head"],
    "qwen2": TINY["qwen2"],
    "gemma3": replace(
        GEMMA3,
        options={**GEMMA3.options, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
    ),
}
BATCHINGS = int(os.environ.get("DAYZERO_BATCHINGS", "357")) // (7 * len(MODELS))


@pytest.mark.timeout(60 + 5 * BATCHINGS)
@by_kernels
@pytest.mark.parametrize("name", MODELS)
def test_any_way_to_serve_a_request_gives_the_answer_it_has_alone(name, dtype, wish, precision, kv_dtype, tmp_path):
    save(MODELS[name], tmp_path)
    loaded = Loaded(tmp_path, dtype, max_context=1024, wish=wish, precision=precision, kv_dtype=kv_dtype)
    draw = random.Random(0)
    stems = [[draw.randrange(VOCAB_SIZE) for _ in range(540)] for _ in range(3)]
    kinds = [
        known_requests(loaded, stems, count=count, max_prompt=max_prompt, max_tokens=max_tokens)
        for count, max_prompt, max_tokens in ((16, 24, 60), (16, 160, 24), (2, 540, 8))
    ]
    happened = Counter()
    for seed in range(BATCHINGS):
        happened += serve(loaded, kinds, seed=seed)
    for event in ("preempted", "hit", "resumed", "aborted", "at one endpoint of two"):
        assert happened[event], f"no request was ever {event}: {happened}"
