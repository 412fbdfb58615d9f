"""NVFP4: e2m1 weights, an e4m3 scale by 16 along K, one float32 scale for the tensor. Round to nearest.

Source: NVIDIA's ModelOpt convention, where scales multiply: global = amax / (6 * 448), scale = amax of the group / (6 *
global). No calibration: what a better choice of scales would gain is not known here.
"""

from itertools import pairwise

import torch
from torch import Tensor

from dayzero.kernels.weights import Nvfp4

GROUP = 16
LARGEST = 6.0  # of e2m1
LARGEST_SCALE = 448.0  # of e4m3
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_MIDDLES = torch.tensor([(a + b) / 2 for a, b in pairwise(E2M1)])


def nvfp4(weight_NK: Tensor) -> Nvfp4:
    """Quantise a weight whose K is a multiple of 16."""
    w = weight_NK.float()
    groups = w.view(len(w), -1, GROUP)
    most = groups.abs().amax(-1)
    global_scale = max(most.max().item() / (LARGEST * LARGEST_SCALE), torch.finfo(torch.float32).tiny)
    scales = (most / (LARGEST * global_scale)).clamp(2.0**-9, LARGEST_SCALE).to(torch.float8_e4m3fn)
    scaled = groups / (scales.float() * global_scale).unsqueeze(-1)
    codes = _codes(scaled.abs()) | (scaled.signbit().to(torch.uint8) << 3)
    return Nvfp4(codes.view_as(w).contiguous(), scales, global_scale)


def _codes(magnitude: Tensor) -> Tensor:
    """Index of the nearest of E2M1; a tie goes to the even index."""
    down = torch.bucketize(magnitude, _MIDDLES)  # a middle counts as the lower one
    tie_to_upper = (down % 2 == 1) & (magnitude == _MIDDLES[down.clamp(max=len(_MIDDLES) - 1)]) & (down < len(_MIDDLES))
    return (down + tie_to_upper).to(torch.uint8)


def dequantized(weight: Nvfp4) -> Tensor:
    """[N, K] float32."""
    values = torch.tensor([*E2M1, *(-x for x in E2M1)])
    groups = values[weight.codes.long()].view(len(weight.codes), -1, GROUP)
    return (groups * (weight.scales.float() * weight.global_scale).unsqueeze(-1)).flatten(1)
