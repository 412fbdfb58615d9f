"""Symmetric 8-bit weights: one scale for each output feature, or for each 32 weights of it.

Rotation spreads what is large in one input channel over 32 of them, so that int8 activations lose less. It cancels in
the product: (H x) . (H w) = x . w. Source: arXiv 2404.00456, here within groups, where it costs five additions a value.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import torch
from torch import Tensor

from dayzero.kernels.weights import GROUP, Grouped, PerChannel
from dayzero.quant.dequantize import row_slices

LEVELS = 127
_HADAMARD: Tensor = reduce(torch.kron, [torch.tensor([[1.0, 1.0], [1.0, -1.0]])] * 5) / GROUP**0.5


def rotated(x: Tensor) -> Tensor:
    """Every 32 values of the last dimension times Sylvester's Hadamard matrix over sqrt(32): its own inverse."""
    groups = x.reshape(*x.shape[:-1], -1, GROUP)
    return (groups @ _HADAMARD.to(x.dtype)).flatten(-2)


def rotated_by_group(weight_NK: Tensor) -> Grouped:
    """Rotated, then rounded by groups of 32; K is a multiple of 32."""
    return replace(_by_group(weight_NK, rotated), rotated=True)


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
    return _by_group(weight_NK, lambda rows: rows)


def _by_group(weight_NK: Tensor, change: Callable[[Tensor], Tensor]) -> Grouped:
    features, inner = weight_NK.shape
    scales = torch.empty(features, inner // GROUP, dtype=torch.float16)
    codes = torch.empty(features, inner // GROUP, GROUP, dtype=torch.uint8)
    for rows in row_slices(features, inner):
        groups = change(weight_NK[rows].float()).view(-1, inner // GROUP, GROUP)
        scales[rows] = (groups.abs().amax(-1) / LEVELS).half()
        codes[rows] = _codes(groups, scales[rows].float())
    return Grouped(8, codes.flatten(1), scales)


def _codes(w: Tensor, scale: Tensor) -> Tensor:
    """Weights along the last axis share a scale; where it is 0 they are 0, or too small for a float16 scale."""
    codes = w / torch.where(scale > 0, scale, torch.inf).unsqueeze(-1)
    return codes.round_().clamp_(-LEVELS, LEVELS).add_(128).to(torch.uint8)
