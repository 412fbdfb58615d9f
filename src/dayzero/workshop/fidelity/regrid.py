"""Weights rounded to nearest on a grid of GGUF's, as stored tensors: what a converter would write of a degridded model.

The grid is that of llama.cpp's plain converter, without calibration. Source: ggml's `quantize_row_*_ref`.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dayzero.checkpoint.tensor import StoredTensor
from dayzero.kernels.weights import GROUP
from dayzero.quant.dequantize import dequantize


def regrid(stored: Mapping[str, StoredTensor], grid_of: Mapping[str, str]) -> dict[str, StoredTensor]:
    """The tensors, each that `grid_of` names in the format that it says: a key of ENCODERS."""
    return {name: rounded(tensor, grid_of[name]) if name in grid_of else tensor for name, tensor in stored.items()}


def rounded(tensor: StoredTensor, grid: str) -> StoredTensor:
    """One tensor, whose last axis must be a multiple of 32."""
    blocks = ENCODERS[grid](dequantize(tensor, torch.float32).view(-1, GROUP))
    return StoredTensor(tensor.name, tensor.shape, grid, blocks.contiguous().view(-1).numpy().data.toreadonly())


def _q4_0(w: Tensor) -> Tensor:
    """The weight of the largest magnitude becomes code 0, whichever its sign: -8 steps from the middle."""
    largest = w.gather(1, w.abs().argmax(1, keepdim=True))
    scale = largest / -8
    codes = (w * _inverse(scale) + 8.5).clamp_(0, 15).to(torch.uint8)
    return torch.cat((_halves(scale), _packed(codes)), dim=1)


def _q4_1(w: Tensor) -> Tensor:
    low, high = w.aminmax(dim=1, keepdim=True)
    scale = (high - low) / 15
    codes = ((w - low) * _inverse(scale) + 0.5).clamp_(0, 15).to(torch.uint8)
    return torch.cat((_halves(scale), _halves(low), _packed(codes)), dim=1)


def _q8_0(w: Tensor) -> Tensor:
    scale = w.abs().amax(1, keepdim=True) / 127
    codes = (w * _inverse(scale)).round_().to(torch.int8)
    return torch.cat((_halves(scale), codes.view(torch.uint8)), dim=1)


ENCODERS: Mapping[str, Callable[[Tensor], Tensor]] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}


def _inverse(scale: Tensor) -> Tensor:
    """0 where all weights of the block are the same: every code is then as good."""
    return torch.where(scale != 0, 1 / scale, 0.0)


def _halves(numbers_B1: Tensor) -> Tensor:
    """[B, 2] bytes of float16."""
    return numbers_B1.half().view(torch.uint8)


def _packed(codes: Tensor) -> Tensor:
    """The first half of a block in the low nibbles, the second in the high ones."""
    low, high = codes.chunk(2, dim=1)
    return low | (high << 4)
