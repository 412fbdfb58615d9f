"""Noise has the size of a step, and nothing else of the checkpoint moves."""

from pathlib import Path

import pytest
import torch

from dayzero.checkpoint.open import open_checkpoint
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.quant.dequantize import dequantize
from dayzero.workshop.fidelity.degrid import degrid, has_grid, in_float32, steps
from dayzero.workshop.fidelity.regrid import rounded

FORMATS = ("Q4_0", "Q4_1", "Q8_0")


def weight(seed: int = 0) -> torch.Tensor:
    return torch.randn(64, 256, generator=torch.Generator().manual_seed(seed))


def on_grid(grid: str, name: str = "w") -> StoredTensor:
    return rounded(in_float32(name, weight()), grid)


@pytest.mark.parametrize("grid", FORMATS)
def test_a_step_is_the_least_distance_of_two_weights_of_a_block(grid: str):
    tensor = on_grid(grid)
    values = dequantize(tensor, torch.float32).view(-1, 32).sort(-1).values
    gaps = values.diff(dim=-1)
    least = gaps.masked_fill(gaps < 1e-6, torch.inf).amin(-1)
    step = steps(tensor).reshape(-1, 32)[:, 0]
    # A block of 32 need not hold two neighbours of 256 codes; every gap is a whole number of steps all the same.
    multiples = gaps / step.unsqueeze(-1)
    assert (multiples - multiples.round()).abs().max() < 1e-2
    assert grid == "Q8_0" or (least / step).median() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("grid", FORMATS)
def test_noise_is_uniform_within_half_a_step(grid: str):
    tensor = on_grid(grid)
    moved = dequantize(degrid({"w": tensor}, seed=1)["w"], torch.float32)
    in_steps = (moved - dequantize(tensor, torch.float32)) / steps(tensor)
    assert in_steps.abs().max() <= 0.5 + 1e-3
    assert in_steps.std().item() == pytest.approx(12**-0.5, rel=0.02)
    assert in_steps.mean().abs() < 0.01


def test_noise_depends_on_seed_and_name_alone():
    a, b = on_grid("Q4_1", "a"), on_grid("Q4_1", "b")
    both, alone = degrid({"a": a, "b": b}, seed=1), degrid({"b": b}, seed=1)
    assert both["b"].data == alone["b"].data
    assert both["a"].data != both["b"].data
    assert degrid({"b": b}, seed=2)["b"].data != alone["b"].data


def test_a_tensor_without_a_grid_stays_as_it_is():
    norm = in_float32("norm", torch.ones(64))
    assert degrid({"norm": norm}, seed=0)["norm"] is norm


def test_all_matrices_of_the_embedded_model_have_a_grid(smollm2: Path):
    tensors = open_checkpoint(smollm2).tensors
    assert all(has_grid(tensor) == (len(tensor.shape) == 2) for tensor in tensors.values())


def test_rows_that_a_converter_reordered_get_the_step_of_their_own_row(smollm2: Path):
    tensor = open_checkpoint(smollm2).tensors["model.layers.0.self_attn.k_proj.weight"]
    assert tensor.transform is not None
    gaps = dequantize(tensor, torch.float32).view(-1, 32).sort(-1).values.diff(dim=-1)
    multiples = gaps / steps(tensor).reshape(-1, 32)[:, :1]
    assert (multiples - multiples.round()).abs().max() < 1e-2
