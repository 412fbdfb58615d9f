"""How each stored format becomes fp32: one function per format, blocks of bytes in, weights out.

blocks    [N, block_bytes] uint8
result    [N, block_weights] float32

The order of the fp32 operations is that of ggml's reference, so that the results are equal to it in every bit; a
product and a sum are two roundings, never one fused. Source: ggml's `dequantize_row_*` and the layouts beside them.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def halves(blocks: Tensor, start: int, count: int) -> Tensor:
    """`count` fp16 numbers from byte `start` of every block, as fp32 [N, count]."""
    return blocks[:, start : start + 2 * count].view(torch.float16).float()


def nibbles(packed: Tensor) -> Tensor:
    """Low nibbles of all bytes, then high nibbles, along the last axis."""
    return torch.cat((packed & 15, packed >> 4), dim=-1)


def fifth_bits(blocks: Tensor, start: int) -> Tensor:
    """Bit i of the 32-bit word at byte `start` as 0 or 16, [N, 32] uint8."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return ((blocks[:, start : start + 4, None] >> shifts) & 1).flatten(1) << 4


def _q4_0(blocks: Tensor) -> Tensor:
    return (nibbles(blocks[:, 2:]).float() - 8).mul_(halves(blocks, 0, 1))


def _q4_1(blocks: Tensor) -> Tensor:
    scale, low = halves(blocks, 0, 2).chunk(2, dim=1)
    return nibbles(blocks[:, 4:]).float().mul_(scale).add_(low)


def _q5_0(blocks: Tensor) -> Tensor:
    codes = nibbles(blocks[:, 6:]) | fifth_bits(blocks, 2)
    return (codes.float() - 16).mul_(halves(blocks, 0, 1))


def _q5_1(blocks: Tensor) -> Tensor:
    scale, low = halves(blocks, 0, 2).chunk(2, dim=1)
    codes = nibbles(blocks[:, 8:]) | fifth_bits(blocks, 4)
    return codes.float().mul_(scale).add_(low)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].view(torch.int8).float().mul_(halves(blocks, 0, 1))


def k_scales(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Eight 6-bit scales and eight 6-bit minima from 12 bytes, each fp32 [N, 8, 1].

    Bytes 0..3 and 4..7 hold the first four of each in their low six bits; their top two bits are the top bits of the
    last four, whose low nibbles are in bytes 8..11 (scales low, minima high).
    """
    first, second, rest = packed.chunk(3, dim=1)
    scales = torch.cat((first & 63, (rest & 15) | ((first >> 6) << 4)), dim=1)
    minima = torch.cat((second & 63, (rest >> 4) | ((second >> 6) << 4)), dim=1)
    return scales.float().unsqueeze(-1), minima.float().unsqueeze(-1)


def _affine_k(blocks: Tensor, codes: Tensor) -> Tensor:
    """codes [N, 8, 32] uint8 -> scale * code - minimum, with the two-level scales of Q4_K and Q5_K."""
    super_scale, super_minimum = halves(blocks, 0, 2).unsqueeze(-1).chunk(2, dim=1)
    scales, minima = k_scales(blocks[:, 4:16])
    return codes.float().mul_(super_scale * scales).sub_(super_minimum * minima).flatten(1)


def q4_k_codes(blocks: Tensor) -> Tensor:
    """[N, 8, 32] uint8."""
    return nibbles(blocks[:, 16:].view(-1, 4, 32)).view(-1, 8, 32)


def q5_k_codes(blocks: Tensor) -> Tensor:
    """[N, 8, 32] uint8."""
    low = nibbles(blocks[:, 48:].view(-1, 4, 32)).view(-1, 8, 32)
    shifts = torch.arange(8, dtype=torch.uint8).view(1, 8, 1)
    high = ((blocks[:, None, 16:48] >> shifts) & 1) << 4
    return low | high


def q6_k_codes(blocks: Tensor) -> Tensor:
    """[N, 16, 16] uint8."""
    low = nibbles(blocks[:, :128].view(-1, 2, 64))  # [N, 2, 128]
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).view(1, 1, 4, 1)
    high = ((blocks[:, 128:192].view(-1, 2, 1, 32) >> shifts) & 3) << 4
    return (low | high.flatten(2)).view(-1, 16, 16)


def _q6_k(blocks: Tensor) -> Tensor:
    codes = q6_k_codes(blocks)
    scales = blocks[:, 192:208].view(torch.int8).float().mul_(halves(blocks, 208, 1)).unsqueeze(-1)
    return (codes.float() - 32).mul_(scales).flatten(1)


def _mxfp4(blocks: Tensor) -> Tensor:
    """Twice e2m1, a whole number, times half of the scale: 2^(e - 128), which is below the least normal up to e = 1."""
    e = blocks[:, :1].int()
    half_scale = torch.where(e < 2, 0x200000 << e, (e - 1) << 23).view(torch.float32)
    twice = torch.tensor([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=torch.float32)
    return twice[nibbles(blocks[:, 1:]).long()].mul_(half_scale)


DECODERS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "F32": lambda blocks: blocks.view(torch.float32),
    "F16": lambda blocks: blocks.view(torch.float16).float(),
    "BF16": lambda blocks: blocks.view(torch.bfloat16).float(),
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": lambda blocks: _affine_k(blocks, q4_k_codes(blocks)),
    "Q5_K": lambda blocks: _affine_k(blocks, q5_k_codes(blocks)),
    "Q6_K": _q6_k,
    "MXFP4": _mxfp4,
}
