"""Weights of every format: drawn at random, and what they and the activations that meet them mean, in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dayzero.kernels.weights import GROUP, Grouped, LinearForm, Mxfp4, Nvfp4, PerChannel, TwoLevel

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
SMALLEST_AMAX = 1e-30  # of a group of activations, below which it counts as zeros


@dataclass(frozen=True)
class WeightFormat:
    """How random weights of a format are made.

    inner_multiple    what K must be a multiple of
    activation_group  along K, of int8 activations; 0: bfloat16
    draw              [N, K] with random scales
    integers          [N, K] whose products with integers are exact: every scale is 1
    """

    inner_multiple: int
    activation_group: int
    draw: Callable[[int, int, torch.Generator], LinearForm]
    integers: Callable[[int, int, torch.Generator], LinearForm]


def _codes(features: int, inner: int, bits: int, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 1 << bits, (features, inner), generator=generator).to(torch.uint8)


def _grouped(bits: int, group: int = GROUP, low: Literal["", "zeros", "minima"] = "") -> WeightFormat:
    def with_scales(scales: Tensor, codes: Tensor, generator: torch.Generator) -> Grouped:
        zeros = torch.randint(0, 17, scales.shape, generator=generator).to(torch.uint8) if low == "zeros" else None
        minima = torch.randint(-9, 9, scales.shape, generator=generator).half() if low == "minima" else None
        return Grouped(bits, codes, scales.half(), zeros, minima)

    def draw(features: int, inner: int, generator: torch.Generator) -> Grouped:
        scales = torch.randn(features, inner // group, generator=generator)  # of either sign, as GGUF's are
        form = with_scales(scales, _codes(features, inner, bits, generator), generator)
        if form.minima is not None:
            form.minima.add_(torch.randn(scales.shape, generator=generator))
        return form

    def integers(features: int, inner: int, generator: torch.Generator) -> Grouped:
        return with_scales(torch.ones(features, inner // group), _codes(features, inner, bits, generator), generator)

    return WeightFormat(group, 32, draw, integers)


def _two_level(bits: int) -> WeightFormat:
    group, has_minima = (16, False) if bits == 6 else (32, True)

    def halves(features: int, inner: int, generator: torch.Generator) -> Tensor:
        return torch.randn(features, inner // 256, generator=generator).half()

    def small(least: int, most: int, features: int, inner: int, generator: torch.Generator) -> Tensor:
        return torch.randint(least, most, (features, inner // group), generator=generator).to(torch.int8)

    def draw(features: int, inner: int, generator: torch.Generator) -> TwoLevel:
        shape = (features, inner, generator)
        scales = small(0, 64, *shape) if has_minima else small(-128, 128, *shape)
        minima = (small(0, 64, *shape).view(torch.uint8), halves(*shape)) if has_minima else (None, None)
        return TwoLevel(bits, _codes(features, inner, bits, generator), scales, halves(*shape), *minima)

    def integers(features: int, inner: int, generator: torch.Generator) -> TwoLevel:
        form = draw(features, inner, generator)
        minima = (None, None)
        if form.super_minima is not None:
            minima = (form.minima, torch.ones_like(form.super_minima))
        return TwoLevel(bits, form.codes, torch.ones_like(form.scales), torch.ones_like(form.super_scales), *minima)

    return WeightFormat(256, group, draw, integers)


def _draw_nvfp4(features: int, inner: int, generator: torch.Generator) -> Nvfp4:
    scales = torch.rand(features, inner // 16, generator=generator) * 400
    return Nvfp4(_codes(features, inner, 4, generator), scales.to(torch.float8_e4m3fn), 0.0123)


def _integer_nvfp4(features: int, inner: int, generator: torch.Generator) -> Nvfp4:
    scales = torch.ones(features, inner // 16).to(torch.float8_e4m3fn)
    return Nvfp4(_codes(features, inner, 4, generator), scales, 1.0)


def _draw_mxfp4(features: int, inner: int, generator: torch.Generator) -> Mxfp4:
    scales = torch.randint(117, 138, (features, inner // 32), generator=generator).to(torch.uint8)
    return Mxfp4(_codes(features, inner, 4, generator), scales)


def _integer_mxfp4(features: int, inner: int, generator: torch.Generator) -> Mxfp4:
    form = _draw_mxfp4(features, inner, generator)
    return Mxfp4(form.codes, torch.full_like(form.scales, 127))


FORMATS = {
    "bf16": WeightFormat(
        1,
        0,
        lambda n, k, generator: torch.randn(n, k, generator=generator).bfloat16(),
        lambda n, k, generator: torch.randint(-8, 9, (n, k), generator=generator).bfloat16(),
    ),
    "int4": _grouped(4),
    "int4 by 64": _grouped(4, 64),
    "int4 by 128": _grouped(4, 128),
    "int4 with zeros": _grouped(4, 32, "zeros"),
    "int4 with zeros by 64": _grouped(4, 64, "zeros"),
    "int4 with zeros by 128": _grouped(4, 128, "zeros"),
    "int4 with minima": _grouped(4, low="minima"),
    "int5": _grouped(5),
    "int5 with minima": _grouped(5, low="minima"),
    "int8": _grouped(8),
    "q4_k": _two_level(4),
    "q5_k": _two_level(5),
    "q6_k": _two_level(6),
    "int8 by channel": WeightFormat(
        1,
        64,
        lambda n, k, generator: PerChannel(_codes(n, k, 8, generator), torch.rand(n, generator=generator) + 0.01),
        lambda n, k, generator: PerChannel(_codes(n, k, 8, generator), torch.ones(n)),
    ),
    "nvfp4": WeightFormat(GROUP, 0, _draw_nvfp4, _integer_nvfp4),
    "mxfp4": WeightFormat(GROUP, 0, _draw_mxfp4, _integer_mxfp4),
}


def inner_of(name: str, least: int) -> int:
    """A K that the format can have."""
    multiple = FORMATS[name].inner_multiple
    return -(-least // multiple) * multiple


def dequantised(form: LinearForm) -> Tensor:
    """[N, K] float64, exactly what the codes and scales say."""
    if isinstance(form, Tensor):
        return form.double()
    codes = form.codes.double()
    if isinstance(form, PerChannel):
        return (codes - 128) * form.scales.double()[:, None]
    if isinstance(form, Nvfp4 | Mxfp4):
        index = form.codes.long()
        values = E2M1[index % 8] * (1 - 2 * (index // 8).double())
        if isinstance(form, Mxfp4):
            return values * (form.scales.double() - 127).exp2().repeat_interleave(32, 1)
        return values * form.scales.double().repeat_interleave(16, 1) * float(torch.tensor(form.global_scale))

    def along_k(numbers: Tensor) -> Tensor:
        return numbers.double().repeat_interleave(codes.shape[1] // numbers.shape[1], 1)

    if isinstance(form, TwoLevel):
        scales = along_k(form.scales) * along_k(form.super_scales)
        if form.minima is None or form.super_minima is None:
            return (codes - 32) * scales
        return codes * scales - along_k(form.minima) * along_k(form.super_minima)
    if form.minima is not None:
        return codes * along_k(form.scales) + along_k(form.minima)
    return (codes - (2 ** (form.bits - 1) if form.zeros is None else along_k(form.zeros))) * along_k(form.scales)


def as_met(x_TK: Tensor, activation_group: int) -> Tensor:
    """Activations in float64 as a weight meets them: bfloat16, or int8 by groups rounded to nearest even."""
    if activation_group == 0:
        return x_TK.bfloat16().double()
    T, K = x_TK.shape
    num_groups = -(-K // activation_group)
    padded = torch.nn.functional.pad(x_TK, (0, -K % activation_group)).view(T, num_groups, activation_group)
    largest = padded.abs().amax(-1, keepdim=True)
    # A number over a tensor is a reciprocal and a product: two roundings, and now and then another code.
    factor = torch.where(largest > SMALLEST_AMAX, torch.full_like(largest, 127.0) / largest, 0.0)
    codes = (padded * factor).round()
    return (codes.double() * (largest / 127.0).double()).flatten(1)[:, :K]
