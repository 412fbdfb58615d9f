"""Weights of every format: drawn at random, and what they and the activations that meet them mean, in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dayzero.kernels.weights import GROUP, Grouped, LinearForm, Nvfp4, PerChannel

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


def _grouped(bits: int, has_minima: bool) -> WeightFormat:
    def draw(features: int, inner: int, generator: torch.Generator) -> Grouped:
        shape = (features, inner // GROUP)
        scales = torch.randn(shape, generator=generator).half()  # of either sign, as GGUF's are
        minima = torch.randn(shape, generator=generator).half() * 4 if has_minima else None
        return Grouped(bits, _codes(features, inner, bits, generator), scales, minima)

    def integers(features: int, inner: int, generator: torch.Generator) -> Grouped:
        shape = (features, inner // GROUP)
        minima = torch.randint(-9, 9, shape, generator=generator).half() if has_minima else None
        return Grouped(bits, _codes(features, inner, bits, generator), torch.ones(shape).half(), minima)

    return WeightFormat(GROUP, 32, draw, integers)


def _draw_nvfp4(features: int, inner: int, generator: torch.Generator) -> Nvfp4:
    scales = torch.rand(features, inner // 16, generator=generator) * 400
    return Nvfp4(_codes(features, inner, 4, generator), scales.to(torch.float8_e4m3fn), 0.0123)


def _integer_nvfp4(features: int, inner: int, generator: torch.Generator) -> Nvfp4:
    scales = torch.ones(features, inner // 16).to(torch.float8_e4m3fn)
    return Nvfp4(_codes(features, inner, 4, generator), scales, 1.0)


FORMATS = {
    "bf16": WeightFormat(
        1,
        0,
        lambda n, k, generator: torch.randn(n, k, generator=generator).bfloat16(),
        lambda n, k, generator: torch.randint(-8, 9, (n, k), generator=generator).bfloat16(),
    ),
    "int4": _grouped(4, False),
    "int4 with minima": _grouped(4, True),
    "int8": _grouped(8, False),
    "int8 with minima": _grouped(8, True),
    "int8 by channel": WeightFormat(
        1,
        64,
        lambda n, k, generator: PerChannel(_codes(n, k, 8, generator), torch.rand(n, generator=generator) + 0.01),
        lambda n, k, generator: PerChannel(_codes(n, k, 8, generator), torch.ones(n)),
    ),
    "nvfp4": WeightFormat(GROUP, 0, _draw_nvfp4, _integer_nvfp4),
}


def dequantised(form: LinearForm) -> Tensor:
    """[N, K] float64, exactly what the codes and scales say."""
    if isinstance(form, Tensor):
        return form.double()
    codes = form.codes.double()
    if isinstance(form, PerChannel):
        return (codes - 128) * form.scales.double()[:, None]
    if isinstance(form, Nvfp4):
        index = form.codes.long()
        values = E2M1[index % 8] * (1 - 2 * (index // 8).double())
        return values * form.scales.double().repeat_interleave(16, 1) * float(torch.tensor(form.global_scale))
    scales = form.scales.double().repeat_interleave(GROUP, 1)
    if form.minima is None:
        return (codes - (8 if form.bits == 4 else 128)) * scales
    return codes * scales + form.minima.double().repeat_interleave(GROUP, 1)


def as_met(x_TK: Tensor, activation_group: int) -> Tensor:
    """Activations in float64 as a weight meets them: bfloat16, or int8 by groups rounded to nearest even."""
    if activation_group == 0:
        return x_TK.bfloat16().double()
    T, K = x_TK.shape
    num_groups = -(-K // activation_group)
    padded = torch.nn.functional.pad(x_TK, (0, -K % activation_group)).view(T, num_groups, activation_group)
    largest = padded.abs().amax(-1, keepdim=True)
    factor = torch.where(largest > SMALLEST_AMAX, 127.0 / largest, 0.0)
    codes = (padded * factor).round()
    return (codes.double() * (largest / 127.0).double()).flatten(1)[:, :K]
