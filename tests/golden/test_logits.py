"""float32 logits against transformers: measured 1e-6 relative on two machines, allowed 2e-4."""

import random

import pytest
import torch

from tests.golden.forward import Model
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

LENGTH = 200
ALLOWED = 2e-4
PROMPT = random.Random(1).choices(range(VOCAB_SIZE), k=LENGTH)
every_family = pytest.mark.parametrize("name", ["llama, llama3 rope", "qwen2", "qwen3", "gemma3"])


def splits():
    """Ways to cut the prompt: whole, even, token by token at the end, and two at random."""
    yield [LENGTH]
    yield [64, 64, 64, 8]
    yield [LENGTH - 20, *[1] * 20]
    for seed in range(2):
        draw, chunks = random.Random(seed), []
        while sum(chunks) < LENGTH:
            chunks.append(min(draw.choice([1, 1, 5, 17, 37, 64]), LENGTH - sum(chunks)))
        yield chunks


def relative_error(ours, theirs):
    return float((ours - theirs).abs().max() / theirs.abs().max())


def transformers_logits(model, tokens=PROMPT):
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].float()


@pytest.mark.parametrize("name", TINY)
def test_logits_of_a_tiny_checkpoint_are_those_of_transformers_for_any_chunks(name, tmp_path, say):
    expected = transformers_logits(save(TINY[name], tmp_path))
    model = Model(tmp_path, torch.float32)
    errors = [relative_error(model.logits(PROMPT, chunks), expected) for chunks in splits()]
    say(f"{name}: logits within {max(errors):.1e} of transformers")
    assert max(errors) <= ALLOWED


@every_family
def test_the_reference_kernels_give_the_logits_of_transformers(name, tmp_path):
    expected = transformers_logits(save(TINY[name], tmp_path), PROMPT[:70])
    model = Model(tmp_path, torch.float32, reference=True)
    assert relative_error(model.logits(PROMPT[:70], [40, 30]), expected) <= ALLOWED


@every_family
def test_a_bfloat16_file_in_shards_is_read_as_transformers_reads_it(name, tmp_path):
    expected = transformers_logits(save(TINY[name], tmp_path, dtype=torch.bfloat16, shard="100KB"))
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert relative_error(Model(tmp_path, torch.float32).logits(PROMPT, [150, 50]), expected) <= ALLOWED


@every_family
def test_a_float16_file_is_read_as_transformers_reads_it(name, tmp_path):
    expected = transformers_logits(save(TINY[name], tmp_path, dtype=torch.float16))
    assert relative_error(Model(tmp_path, torch.float32).logits(PROMPT, [150, 50]), expected) <= ALLOWED


@every_family
def test_bfloat16_logits_stay_near_those_of_float32(name, tmp_path):
    expected = transformers_logits(save(TINY[name], tmp_path))
    assert relative_error(Model(tmp_path, torch.bfloat16).logits(PROMPT, [150, 50]), expected) <= 0.1


@every_family
def test_taps_are_the_hidden_states_of_transformers(name, tmp_path):
    model = save(TINY[name], tmp_path)
    with torch.inference_mode():
        expected = model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states[1][0]  # after layer 0
    parts = Model(tmp_path, torch.float32).hidden(PROMPT, [150, 50], taps=[0])
    assert relative_error(torch.cat([part.taps[0] for part in parts]), expected) <= ALLOWED
