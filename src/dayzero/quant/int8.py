"""Symmetric 8-bit weights: one scale for each output feature, or for each 32 weights of it."""

import torch
from torch import Tensor

from dayzero.kernels.weights import GROUP, Grouped, PerChannel
from dayzero.quant.dequantize import row_slices

LEVELS = 127


def per_channel(weight_NK: Tensor) -> PerChannel:
    """Round to nearest: the largest weight of a row becomes 127. A row of zeros has the scale 0."""
    w = weight_NK.float()
    scales, codes = torch.empty(len(w)), torch.empty(w.shape, dtype=torch.uint8)
    for rows in row_slices(*w.shape):
        scales[rows] = w[rows].abs().amax(-1) / LEVELS
        codes[rows] = _codes(w[rows], scales[rows])
    return PerChannel(codes, scales)


def by_group(weight_NK: Tensor) -> Grouped:
    """The same by groups of 32; scales are float16, codes are rounded with the scale as it is stored."""
    groups = weight_NK.float().view(len(weight_NK), -1, GROUP)
    scales, codes = torch.empty(groups.shape[:2], dtype=torch.float16), torch.empty(groups.shape, dtype=torch.uint8)
    for rows in row_slices(*weight_NK.shape):
        scales[rows] = (groups[rows].abs().amax(-1) / LEVELS).half()
        codes[rows] = _codes(groups[rows], scales[rows].float())
    return Grouped(8, codes.flatten(1), scales)


def _codes(w: Tensor, scale: Tensor) -> Tensor:
    """Weights along the last axis share a scale; where it is 0 they are 0, or too small for a float16 scale."""
    codes = w / torch.where(scale > 0, scale, torch.inf).unsqueeze(-1)
    return codes.round_().clamp_(-LEVELS, LEVELS).add_(128).to(torch.uint8)
