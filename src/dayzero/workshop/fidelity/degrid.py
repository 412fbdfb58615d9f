"""The weights of a quantized checkpoint, moved off its grid.

A checkpoint of 4 bits lies on a grid that formats of 4 bits hit better than they would hit weights from training. Noise
of one step, uniform between the grid's points, makes a model whose weights lie anywhere, near enough to the first one
to be a language model. It is another model: figures of it are labelled so, and never stand beside those of the first.
"""

import zlib
from collections.abc import Mapping

import torch
from torch import Tensor

from dayzero.checkpoint.tensor import FORMATS, StoredTensor
from dayzero.kernels.weights import Grouped, TwoLevel
from dayzero.quant.codes import CODED_FORMATS, coded
from dayzero.quant.dequantize import dequantize


def degrid(stored: Mapping[str, StoredTensor], seed: int) -> dict[str, StoredTensor]:
    """Every tensor on a grid as float32 with noise in [-step / 2, step / 2]: a deviation of step / sqrt(12).

    The others are as they were. A tensor's noise depends on the seed and its name alone. Takes 4 bytes a weight.
    """
    return {name: _moved(tensor, seed) if has_grid(tensor) else tensor for name, tensor in stored.items()}


def has_grid(tensor: StoredTensor) -> bool:
    """Whether the format has steps, all of one size in a group: those of MXFP4 grow with the weight."""
    return tensor.format in CODED_FORMATS - {"MXFP4"}


def steps(tensor: StoredTensor) -> Tensor:
    """[N, K] float32: how far apart the values are between which a weight was rounded."""
    form = coded(tensor)
    assert isinstance(form, Grouped | TwoLevel)
    in_codes = _along_k(form.scales, tensor)
    if isinstance(form, TwoLevel):
        in_codes *= _along_k(form.super_scales, tensor)
    order = form.order if isinstance(form, Grouped) else None
    return in_codes if order is None else in_codes[:, order.argsort()]


def _along_k(scales: Tensor, tensor: StoredTensor) -> Tensor:
    return scales.float().abs().repeat_interleave(tensor.shape[1] // scales.shape[1], dim=1)


def in_float32(name: str, weight: Tensor) -> StoredTensor:
    """A tensor as if a checkpoint held it."""
    data = weight.contiguous().view(-1).view(torch.uint8).numpy().data
    assert len(data) == weight.numel() * FORMATS["F32"].block_bytes
    return StoredTensor(name, tuple(weight.shape), "F32", data.toreadonly())


def _moved(tensor: StoredTensor, seed: int) -> StoredTensor:
    generator = torch.Generator().manual_seed(zlib.crc32(tensor.name.encode(), seed))
    noise = torch.rand(tensor.shape, generator=generator).sub_(0.5).mul_(steps(tensor))
    return in_float32(tensor.name, noise.add_(dequantize(tensor, torch.float32)))
