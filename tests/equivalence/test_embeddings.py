"""Law 1 for embeddings: chunks, companions, preemptions and cached prefixes do not show in a bit of one."""

import random
from collections.abc import Sequence

import pytest
import torch

from dayzero.core.pooling import Pooling
from dayzero.core.sampling import SamplingParams
from dayzero.wire.messages import EMBEDS, Submit
from tests.equivalence.loaded import POLICY_VERSION, Loaded, Sizes, Traffic, by_kernels
from tests.golden.tiny import ENCODERS, TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model


def submit(request_id: int, prompt: Sequence[int], pooling: Pooling | None) -> Submit:
    params = EMBEDS if pooling else SamplingParams(max_tokens=30, seed=request_id, ignore_eos=True)
    return Submit(
        request_id=request_id,
        prompt=list(prompt),
        params=params,
        salt="",
        policy_version=POLICY_VERSION,
        pooling=pooling,
    )


def embeddings(loaded: Loaded, sizes: Sizes, submits: Sequence[Submit]) -> dict[int, bytes | None]:
    """Of requests that arrive together, by their ids; None for a generation."""
    traffic = Traffic(loaded.engine(sizes))
    for one in submits:
        traffic.submit(one)
    traffic.drain()
    assert traffic.load.kv_blocks_used == 0
    return {number: events[-1].embedding for number, events in traffic.events.items()}


@by_kernels
def test_any_way_to_serve_an_embedding_gives_the_bits_it_has_alone(dtype, wish, precision, kv_dtype, tmp_path):
    save(TINY["llama"], tmp_path)
    loaded = Loaded(tmp_path, dtype, max_context=1024, wish=wish, precision=precision, kv_dtype=kv_dtype)
    draw = random.Random(0)
    stem = [draw.randrange(VOCAB_SIZE) for _ in range(200)]
    submits = []
    for number in range(24):
        prompt = stem[: draw.randrange(200)] + [draw.randrange(VOCAB_SIZE) for _ in range(draw.randrange(1, 40))]
        submits.append(submit(number, prompt, draw.choice(["cls", "mean", "last", None])))
    roomy = Sizes(num_blocks=(100,))
    alone = {one.request_id: embeddings(loaded, roomy, [one])[one.request_id] for one in submits}
    assert {one.request_id for one in submits if one.pooling} == {number for number, found in alone.items() if found}
    for max_step_tokens, num_blocks in ((512, 100), (33, 100), (64, 20)):
        draw.shuffle(submits)
        sizes = Sizes(num_blocks=(num_blocks,), max_step_tokens=max_step_tokens)
        assert embeddings(loaded, sizes, submits) == alone


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_gives_a_text_the_bits_it_has_alone_in_any_company(name, dtype, tmp_path):
    save(ENCODERS[name], tmp_path)
    loaded = Loaded(tmp_path, dtype, max_context=160)
    draw = random.Random(1)
    submits = []
    for number in range(24):
        prompt = [draw.randrange(VOCAB_SIZE) for _ in range(draw.choice([1, 2, 17, 64, 159, 160]))]
        submits.append(submit(number, prompt, draw.choice(["cls", "mean", "last"])))
    sizes = Sizes(num_blocks=(), prefix_cache=False)
    alone = {one.request_id: embeddings(loaded, sizes, [one])[one.request_id] for one in submits}
    assert all(alone.values())
    for max_step_tokens in (160, 333, 2048):
        draw.shuffle(submits)
        sizes = Sizes(num_blocks=(), prefix_cache=False, max_step_tokens=max_step_tokens)
        assert embeddings(loaded, sizes, submits) == alone
