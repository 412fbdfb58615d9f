"""Symmetric 8-bit weights: one scale for each output feature, or for each 32 weights of it."""

import torch
from torch import Tensor

from dayzero.kernels.weights import GROUP, Grouped, PerChannel

LEVELS = 127


def per_channel(weight_NK: Tensor) -> PerChannel:
    """Round to nearest: the largest weight of a row becomes 127. A row of zeros has the scale 0."""
    w = weight_NK.float()
    scales = w.abs().amax(-1) / LEVELS
    return PerChannel(_codes(w, scales.unsqueeze(-1)), scales)


def by_group(weight_NK: Tensor) -> Grouped:
    """The same by groups of 32; scales are float16, codes are rounded with the scale as it is stored."""
    w = weight_NK.float()
    groups = w.view(len(w), -1, GROUP)
    scales = (groups.abs().amax(-1) / LEVELS).half()
    codes = _codes(groups, scales.float().unsqueeze(-1))
    return Grouped(8, codes.view_as(w).contiguous(), scales)


def _codes(w: Tensor, scale: Tensor) -> Tensor:
    codes = torch.where(scale > 0, w / scale, 0.0).round_().clamp_(-LEVELS, LEVELS)
    return (codes + 128).to(torch.uint8)
