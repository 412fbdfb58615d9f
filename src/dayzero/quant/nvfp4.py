"""NVFP4: e2m1 weights, an e4m3 scale by 16 along K, one float32 scale for the tensor.

Source: NVIDIA's ModelOpt convention, where scales multiply. The largest weight of a group becomes 6 or, where that
comes nearer to the group as a whole, 4: between 4 and 6 the grid is coarsest (arXiv 2512.02010). Scales stay below 256,
so that there is room for the latter. Rounds to nearest; knows nothing of activations.
"""

import torch
from torch import Tensor

from dayzero.kernels.weights import Nvfp4
from dayzero.quant.dequantize import row_slices

GROUP = 16
LARGEST = (6.0, 4.0)  # what the largest weight of a group may become
LARGEST_SCALE = 256.0  # of a group whose largest becomes 6; e4m3 ends at 448
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_VALUES = torch.tensor([*E2M1, *(-x for x in E2M1)])


def nvfp4(weight_NK: Tensor) -> Nvfp4:
    """Quantise a weight whose K is a multiple of 16."""
    features, inner = weight_NK.shape
    groups = weight_NK.float().view(features, -1, GROUP)
    most = torch.empty(groups.shape[:2])
    for rows in row_slices(features, inner):
        most[rows] = groups[rows].abs().amax(-1)
    global_scale = max(most.max().item() / (LARGEST[0] * LARGEST_SCALE), torch.finfo(torch.float32).tiny)
    codes = torch.empty(groups.shape, dtype=torch.uint8)
    scales = torch.empty(most.shape, dtype=torch.float8_e4m3fn)
    for rows in row_slices(features, inner):
        (first, scale, error), (other, other_scale, other_error) = (
            _rounded(groups[rows], most[rows] / (largest * global_scale), global_scale) for largest in LARGEST
        )
        better = other_error < error
        codes[rows] = torch.where(better.unsqueeze(-1), other, first)
        scales[rows] = torch.where(better, other_scale, scale).to(torch.float8_e4m3fn)
    return Nvfp4(codes.flatten(1), scales, global_scale)


def _rounded(groups: Tensor, wanted: Tensor, global_scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Codes, scales (of e4m3, as float32) and squared errors of groups, for scales near those that are wanted."""
    scales = wanted.clamp(2.0**-9, 448.0).to(torch.float8_e4m3fn).float()
    scaled = groups / (scales * global_scale).unsqueeze(-1)
    codes, magnitude = _codes(scaled)
    return codes, scales, magnitude.sub_(scaled.abs_()).square_().sum(-1) * scales.square()


def _codes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and index of the nearest of E2M1, and its magnitude; a tie goes to the even index.

    The values are 0.5 apart up to 2, then 1 up to 4, then 2: the index counts the steps of each size below the value.
    """
    magnitude = x.abs()
    halves = (magnitude * 2).clamp_(max=4).round_()
    ones = (magnitude - 2).clamp_(0, 2).round_()
    twos = magnitude.sub_(4).mul_(0.5).clamp_(0, 1).round_()
    index = (halves + ones).add_(twos).to(torch.uint8)
    index |= x.signbit().to(torch.uint8) << 3
    return index, halves.mul_(0.5).add_(ones).add_(twos, alpha=2)


def dequantized(weight: Nvfp4) -> Tensor:
    """[N, K] float32."""
    groups = _VALUES[weight.codes.long()].view(len(weight.codes), -1, GROUP)
    return (groups * (weight.scales.float() * weight.global_scale).unsqueeze(-1)).flatten(1)
