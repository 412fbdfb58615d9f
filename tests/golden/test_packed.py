"""A packed checkpoint gives the logits of the model whose weights its codes mean."""

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from dayzero.checkpoint.packing import GPTQ, PACKINGS
from tests.golden.forward import Model
from tests.golden.test_logits import ALLOWED, PROMPT, relative_error, transformers_logits
from tests.golden.tiny import TINY, save
from tests.quant.packing import CONFIGS, meant, packed, quantized

pytestmark = pytest.mark.model

GROUP = 32


def save_packed(name: str, packing: str, folder: Path, *, scattered: bool = False) -> PreTrainedModel:
    """Write a tiny checkpoint packed, and return the model that it means."""
    model = save(TINY[name], folder)
    file = folder / "model.safetensors"
    tensors: dict[str, Tensor] = load_file(file)
    inputs = random.Random(0)
    for weight in [key for key in tensors if key.endswith("_proj.weight")]:
        module, dense = weight.removesuffix(".weight"), tensors.pop(weight)
        order = inputs.sample(range(dense.shape[1]), dense.shape[1]) if scattered else list(range(dense.shape[1]))
        numbers = quantized(dense[:, order], GROUP)
        parts = packed(packing, *numbers, order)
        tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
        with torch.no_grad():
            model.get_parameter(weight)[:, order] = meant(*numbers).float()
    save_file(tensors, file)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": CONFIGS[packing]}))
    return model


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3"])
def test_logits_of_a_packed_checkpoint_are_those_of_what_it_means(name, packing, tmp_path):
    expected = transformers_logits(save_packed(name, packing, tmp_path))
    assert relative_error(Model(tmp_path, torch.float32).logits(PROMPT, [150, 50]), expected) <= ALLOWED


def test_so_are_those_of_one_whose_groups_are_scattered(tmp_path):
    expected = transformers_logits(save_packed("qwen3", GPTQ, tmp_path, scattered=True))
    assert relative_error(Model(tmp_path, torch.float32).logits(PROMPT, [150, 50]), expected) <= ALLOWED
