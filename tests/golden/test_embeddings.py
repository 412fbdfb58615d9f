"""Embeddings of the embedded model against transformers: the direction of its last hidden states, behind the norm."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from dayzero.clock import SystemClock
from dayzero.core.pooling import Pooling
from dayzero.core.spec import EngineConfig
from dayzero.engine.build import build_engine
from dayzero.wire.messages import EMBEDS, Submit
from dayzero.workshop.bench.workloads.dataset import Question, read_rows
from tests.golden import smollm2 as oracle
from tests.golden.test_smollm2 import LLM

pytestmark = pytest.mark.model

AT_LEAST = {"float32": 0.99999, "bfloat16": 0.999}  # cosine; a mean over texts in bfloat16 has come to 0.9993


@pytest.fixture(scope="module")
def theirs(smollm2: Path) -> LlamaForCausalLM:
    return oracle.load(smollm2)


@pytest.fixture(scope="module")
def texts(smollm2: Path) -> list[list[int]]:
    """The 80 first turns of MT-Bench."""
    tokenizer = LLM(str(smollm2), max_context=64, max_requests=1).tokenizer
    return [tokenizer.encode_prompt(row.turns[0]) for row in read_rows("mtbench.jsonl.gz", Question)]


@pytest.mark.parametrize("dtype", AT_LEAST)
def test_embeddings_point_where_those_of_transformers_do(
    smollm2: Path, theirs: LlamaForCausalLM, texts: list[list[int]], dtype: str, say: Callable[[str], None]
) -> None:
    precision = "bf16" if dtype == "bfloat16" else "auto"
    config = EngineConfig(model=str(smollm2), dtype=dtype, precision=precision, max_context=2048, max_requests=16)
    engine, spec = build_engine(config, SystemClock(), lambda *_: None)
    poolings: tuple[Pooling, ...] = ("mean", "last")
    for number, (pooling, prompt) in enumerate((pooling, text) for pooling in poolings for text in texts):
        engine.submit(
            Submit(
                request_id=number,
                prompt=prompt,
                params=EMBEDS,
                salt="",
                policy_version=spec.policy_version,
                pooling=pooling,
            )
        )
    found: dict[int, bytes] = {}
    while engine.has_work:
        report = engine.step()
        found |= {event.request_id: event.embedding for event in report.events if event.embedding} if report else {}
    assert len(found) == len(poolings) * len(texts)
    worst = dict.fromkeys(poolings, 1.0)
    for i, prompt in enumerate(texts):
        with torch.inference_mode():
            hidden = theirs.model(torch.tensor([prompt])).last_hidden_state[0]
        for first, pooling in enumerate(poolings):
            packed = found[first * len(texts) + i]
            ours = torch.tensor(struct.unpack(f"<{spec.embedding_size}f", packed))
            expected = hidden.mean(0) if pooling == "mean" else hidden[-1]
            worst[pooling] = min(worst[pooling], float(torch.cosine_similarity(ours, expected, dim=0)))
    say(f"SmolLM2 in {dtype}: cosines of embeddings at least {worst['mean']:.6f} (mean), {worst['last']:.6f} (last)")
    assert min(worst.values()) >= AT_LEAST[dtype]
