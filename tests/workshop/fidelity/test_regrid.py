"""Blocks that we write are those that ggml's own package writes."""

import gguf
import numpy as np
import pytest
import torch

from dayzero.quant.dequantize import dequantize
from dayzero.workshop.fidelity.degrid import in_float32
from dayzero.workshop.fidelity.regrid import ENCODERS, regrid, rounded

grids = pytest.mark.parametrize("grid", ENCODERS)
LARGEST_ERROR = {"Q4_0": 1.0, "Q4_1": 0.5, "Q8_0": 0.5}  # in steps: the other end of Q4_0's 16 codes is cut


def weight() -> torch.Tensor:
    w = torch.randn(48, 128, generator=torch.Generator().manual_seed(0))
    w[0] = 0
    w[1] = 0.75
    w[2] = -w[2].abs()
    return w


@grids
def test_blocks_are_those_of_ggml(grid: str):
    ours = rounded(in_float32("w", weight()), grid)
    theirs = gguf.quantize(weight().numpy(), gguf.GGMLQuantizationType[grid])
    assert np.array_equal(np.frombuffer(ours.data, dtype=np.uint8), theirs.ravel())


@grids
def test_every_weight_is_within_its_rounding(grid: str):
    w = weight()
    blocks = w.view(-1, 32)
    step = {
        "Q4_0": blocks.abs().amax(-1) / 8,
        "Q4_1": (blocks.amax(-1) - blocks.amin(-1)) / 15,
        "Q8_0": blocks.abs().amax(-1) / 127,
    }[grid]
    error = (dequantize(rounded(in_float32("w", w), grid), torch.float32) - w).view(-1, 32).abs().amax(-1)
    float16 = blocks.abs().amax(-1) * 2**-10  # of scale and minimum
    assert (error <= LARGEST_ERROR[grid] * step * 1.001 + float16).all()


def test_only_the_tensors_that_are_named_are_rounded():
    a, b = in_float32("a", weight()), in_float32("b", weight())
    result = regrid({"a": a, "b": b}, {"a": "Q4_1"})
    assert result["a"].format == "Q4_1"
    assert result["b"] is b
