"""Stored weights as codes and scales, without the detour through floats: exactly what the file holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from dayzero.checkpoint.packing import PACKINGS
from dayzero.checkpoint.tensor import FORMATS, RotaryRows, StoredTensor
from dayzero.kernels.weights import CodeForm, Grouped, LinearForm, Mxfp4, TwoLevel
from dayzero.quant.decoders import fifth_bits, k_scales, nibbles, q4_k_codes, q5_k_codes, q6_k_codes
from dayzero.quant.packed import unpacked


def _halves(blocks: Tensor, start: int) -> Tensor:
    """[B, 1] float16."""
    return blocks[:, start : start + 2].view(torch.float16)


def _q4_0(blocks: Tensor) -> CodeForm:
    return Grouped(4, nibbles(blocks[:, 2:]), _halves(blocks, 0))


def _q4_1(blocks: Tensor) -> CodeForm:
    return Grouped(4, nibbles(blocks[:, 4:]), _halves(blocks, 0), minima=_halves(blocks, 2))


def _q5_0(blocks: Tensor) -> CodeForm:
    return Grouped(5, nibbles(blocks[:, 6:]) | fifth_bits(blocks, 2), _halves(blocks, 0))


def _q5_1(blocks: Tensor) -> CodeForm:
    codes = nibbles(blocks[:, 8:]) | fifth_bits(blocks, 4)
    return Grouped(5, codes, _halves(blocks, 0), minima=_halves(blocks, 2))


def _q8_0(blocks: Tensor) -> CodeForm:
    return Grouped(8, blocks[:, 2:] ^ 128, _halves(blocks, 0))  # a signed byte plus 128


def _with_minima(bits: int, codes: Tensor, blocks: Tensor) -> CodeForm:
    """Q4_K and Q5_K."""
    scales, minima = (numbers.squeeze(-1).to(torch.uint8) for numbers in k_scales(blocks[:, 4:16]))
    return TwoLevel(bits, codes, scales.view(torch.int8), _halves(blocks, 0), minima, _halves(blocks, 2))


def _q6_k(blocks: Tensor) -> CodeForm:
    return TwoLevel(6, q6_k_codes(blocks), blocks[:, 192:208].view(torch.int8), _halves(blocks, 208))


_CODES: Mapping[str, Callable[[Tensor], CodeForm]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": lambda blocks: _with_minima(4, q4_k_codes(blocks), blocks),
    "Q5_K": lambda blocks: _with_minima(5, q5_k_codes(blocks), blocks),
    "Q6_K": _q6_k,
    "MXFP4": lambda blocks: Mxfp4(nibbles(blocks[:, 1:]), blocks[:, :1]),
}
CODED_FORMATS = frozenset((*_CODES, *PACKINGS))


def coded(stored: StoredTensor) -> CodeForm:
    """The codes of a tensor [N, K] in one of CODED_FORMATS, its rows in the order that the model wants."""
    if stored.format in PACKINGS:
        return unpacked(stored)
    features = stored.shape[0]
    packed = torch.empty(len(stored.data), dtype=torch.uint8)
    packed.numpy().data[:] = stored.data
    form = _CODES[stored.format](packed.view(-1, FORMATS[stored.format].block_bytes))
    rows = {name: blocks.reshape(features, -1) for name, blocks in _numbers(form).items()}
    if isinstance(stored.transform, RotaryRows):
        order = _rotary_order(features, stored.transform.num_heads)
        rows = {name: numbers[order] for name, numbers in rows.items()}
    return _with(form, {name: numbers.contiguous() for name, numbers in rows.items()})


def _numbers(form: CodeForm) -> dict[str, Tensor]:
    """What a form has for each row."""
    all_of = {field.name: getattr(form, field.name) for field in fields(form)}
    return {name: numbers for name, numbers in all_of.items() if isinstance(numbers, Tensor) and name != "order"}


def _with(form: CodeForm, rows: dict[str, Any]) -> CodeForm:
    return replace(form, **rows)


def stacked(forms: Sequence[LinearForm]) -> list[LinearForm]:
    """Weights one under the other, neighbours of one kind in one piece: a file may keep V finer than Q and K."""
    return [_joined(list(same)) for _, same in groupby(forms, _kind)]


def _kind(form: LinearForm) -> tuple[object, ...]:
    """Equal for forms that can be one."""
    if isinstance(form, Tensor):
        return (Tensor,)
    rest = [getattr(form, field.name) for field in fields(form) if field.name not in _numbers(form)]
    widths = [numbers.shape[1] for numbers in _numbers(form).values()]
    return (type(form), *_numbers(form), *widths, *(x.tolist() if isinstance(x, Tensor) else x for x in rest))


def _joined(forms: Sequence[LinearForm]) -> LinearForm:
    first = forms[0]
    if isinstance(first, Tensor):
        return torch.cat([form for form in forms if isinstance(form, Tensor)])
    return _with(first, {name: torch.cat([getattr(form, name) for form in forms]) for name in _numbers(first)})


def _rotary_order(features: int, num_heads: int) -> Tensor:
    """Stored row of each wanted row: (pair, half) within a head becomes (half, pair)."""
    half = features // num_heads // 2
    return torch.arange(features).view(num_heads, half, 2).transpose(1, 2).reshape(-1)
