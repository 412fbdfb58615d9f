"""NVFP4: e2m1 weights, an e4m3 scale by 16 along K, one float32 scale for the tensor. Round to nearest.

Source: NVIDIA's ModelOpt convention, where scales multiply: global = amax / (6 * 448), scale = amax of the group / (6 *
global). No calibration: what a better choice of scales would gain is not known here.
"""

import torch
from torch import Tensor

from dayzero.kernels.weights import Nvfp4
from dayzero.quant.dequantize import row_slices

GROUP = 16
LARGEST = 6.0  # of e2m1
LARGEST_SCALE = 448.0  # of e4m3
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def nvfp4(weight_NK: Tensor) -> Nvfp4:
    """Quantise a weight whose K is a multiple of 16."""
    features, inner = weight_NK.shape
    groups = weight_NK.float().view(features, -1, GROUP)
    most = torch.empty(groups.shape[:2])
    codes = torch.empty(groups.shape, dtype=torch.uint8)
    for rows in row_slices(features, inner):
        most[rows] = groups[rows].abs().amax(-1)
    global_scale = max(most.max().item() / (LARGEST * LARGEST_SCALE), torch.finfo(torch.float32).tiny)
    scales = (most / (LARGEST * global_scale)).clamp(2.0**-9, LARGEST_SCALE).to(torch.float8_e4m3fn)
    steps = (scales.float() * global_scale).unsqueeze(-1)
    for rows in row_slices(features, inner):
        codes[rows] = _codes(groups[rows] / steps[rows])
    return Nvfp4(codes.flatten(1), scales, global_scale)


def _codes(x: Tensor) -> Tensor:
    """Sign and index of the nearest of E2M1; a tie goes to the even index.

    The values are 0.5 apart up to 2, then 1 up to 4, then 2: the index counts the steps of each size below the value.
    """
    magnitude = x.abs()
    index = (magnitude * 2).clamp_(max=4).round_()
    index += (magnitude - 2).clamp_(0, 2).round_()
    index += (magnitude.sub_(4).mul_(0.5)).clamp_(0, 1).round_()
    return index.to(torch.uint8) | (x.signbit().to(torch.uint8) << 3)


def dequantized(weight: Nvfp4) -> Tensor:
    """[N, K] float32."""
    values = torch.tensor([*E2M1, *(-x for x in E2M1)])
    groups = values[weight.codes.long()].view(len(weight.codes), -1, GROUP)
    return (groups * (weight.scales.float() * weight.global_scale).unsqueeze(-1)).flatten(1)
