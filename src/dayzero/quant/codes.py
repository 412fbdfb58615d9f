"""Stored weights as codes and scales, without the detour through floats.

Exact for AWQ, GPTQ and those of GGUF's formats that have one scale by 32 weights. The two-level scales of Q4_K and Q5_K
are multiplied out and rounded to float16 (at most 2^-11 of each scale). Q6_K, whose scales are by 16, has no form here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from dayzero.checkpoint.packing import PACKINGS
from dayzero.checkpoint.tensor import FORMATS, RotaryRows, StoredTensor
from dayzero.kernels.weights import GROUP, Grouped, LinearForm
from dayzero.quant.decoders import fifth_bits, halves, k_scales, nibbles, q4_k_codes, q5_k_codes
from dayzero.quant.packed import unpacked

Blocks = tuple[int, Tensor, Tensor, Tensor | None]  # bits; codes of each block; its scales and minima


def _q4_0(blocks: Tensor) -> Blocks:
    return 4, nibbles(blocks[:, 2:]), halves(blocks, 0, 1), None


def _q4_1(blocks: Tensor) -> Blocks:
    scales, minima = halves(blocks, 0, 2).chunk(2, dim=1)
    return 4, nibbles(blocks[:, 4:]), scales, minima


def _q5_0(blocks: Tensor) -> Blocks:
    codes = nibbles(blocks[:, 6:]) | fifth_bits(blocks, 2)
    return 8, codes + (128 - 16), halves(blocks, 0, 1), None


def _q5_1(blocks: Tensor) -> Blocks:
    scales, minima = halves(blocks, 0, 2).chunk(2, dim=1)
    return 8, nibbles(blocks[:, 8:]) | fifth_bits(blocks, 4), scales, minima


def _q8_0(blocks: Tensor) -> Blocks:
    return 8, blocks[:, 2:] ^ 128, halves(blocks, 0, 1), None  # a signed byte plus 128


def _two_level(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Scales and minima [B, 8] of Q4_K and Q5_K."""
    super_scale, super_minimum = halves(blocks, 0, 2).chunk(2, dim=1)
    scales, minima = (x.squeeze(-1) for x in k_scales(blocks[:, 4:16]))
    return super_scale * scales, -super_minimum * minima


def _q4_k(blocks: Tensor) -> Blocks:
    return 4, q4_k_codes(blocks), *_two_level(blocks)


def _q5_k(blocks: Tensor) -> Blocks:
    return 8, q5_k_codes(blocks), *_two_level(blocks)


_CODES: Mapping[str, Callable[[Tensor], Blocks]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
}
CODED_FORMATS = frozenset((*_CODES, *PACKINGS))


def grouped(stored: StoredTensor) -> Grouped:
    """The codes of a tensor [N, K] in one of CODED_FORMATS, its rows in the order that the model wants."""
    if stored.format in PACKINGS:
        return unpacked(stored)
    features, inner = stored.shape
    packed = torch.empty(len(stored.data), dtype=torch.uint8)
    packed.numpy().data[:] = stored.data
    bits, codes, scales, minima = _CODES[stored.format](packed.view(-1, FORMATS[stored.format].block_bytes))
    codes, scales = codes.reshape(features, inner), scales.reshape(features, inner // GROUP).half()
    lows = None if minima is None else minima.reshape(features, inner // GROUP).half()
    if isinstance(stored.transform, RotaryRows):
        order = _rotary_order(features, stored.transform.num_heads)
        codes, scales, lows = codes[order], scales[order], None if lows is None else lows[order]
    minima = None if lows is None else lows.contiguous()
    return Grouped(bits, codes.contiguous(), scales.contiguous(), minima=minima)


def stacked(forms: Sequence[LinearForm]) -> list[LinearForm]:
    """Weights one under the other, neighbours of one kind in one piece: a file may keep V finer than Q and K."""
    return [_joined(list(same)) for _, same in groupby(forms, _kind)]


def _kind(form: LinearForm) -> tuple[object, ...]:
    """Equal for forms that can be one."""
    if isinstance(form, Tensor):
        return (Tensor,)
    numbers = [getattr(form, field.name) for field in fields(form)]
    order = form.order.tolist() if isinstance(form, Grouped) and form.order is not None else None
    alike = (tuple(x.shape[1:]) if isinstance(x, Tensor) else x for x in numbers)
    return (type(form), *alike, order)


def _joined(forms: Sequence[LinearForm]) -> LinearForm:
    first = forms[0]
    if isinstance(first, Tensor):
        return torch.cat([form for form in forms if isinstance(form, Tensor)])
    rows: dict[str, Any] = {
        field.name: torch.cat([getattr(form, field.name) for form in forms])
        for field in fields(first)
        if isinstance(getattr(first, field.name), Tensor) and field.name != "order"
    }
    return replace(first, **rows)


def _rotary_order(features: int, num_heads: int) -> Tensor:
    """Stored row of each wanted row: (pair, half) within a head becomes (half, pair)."""
    half = features // num_heads // 2
    return torch.arange(features).view(num_heads, half, 2).transpose(1, 2).reshape(-1)
