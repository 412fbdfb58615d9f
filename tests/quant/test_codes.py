"""Codes and scales against the decoded weights."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dayzero.checkpoint.tensor import FORMATS, RotaryRows
from dayzero.kernels.weights import CodeForm, Grouped, Mxfp4, TwoLevel
from dayzero.quant.codes import CODED_FORMATS, coded
from dayzero.quant.dequantize import dequantize
from dayzero.quant.nvfp4 import E2M1
from tests.quant.stored import random_tensor

GGUF_FORMATS = sorted(CODED_FORMATS & FORMATS.keys())
BITS = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q4_K": 4, "Q5_K": 5, "Q6_K": 6, "MXFP4": 4}


def weights(form: CodeForm) -> Tensor:
    """[N, K] float64, as the definition says."""
    inner = form.codes.shape[1]
    if isinstance(form, Mxfp4):
        values = torch.tensor([*E2M1, *(-x for x in E2M1)]).double()[form.codes.long()]
        return values * (form.scales.double() - 127).exp2().repeat_interleave(32, 1)
    assert isinstance(form, Grouped | TwoLevel)

    def along_k(*levels: Tensor) -> Tensor:
        return torch.stack([x.double().repeat_interleave(inner // x.shape[1], 1) for x in levels]).prod(0)

    offset = 0 if form.minima is not None else 2 ** (form.bits - 1)
    if isinstance(form, Grouped):
        values = (form.codes.double() - offset) * along_k(form.scales)
        return values if form.minima is None else values + along_k(form.minima)
    values = (form.codes.double() - offset) * along_k(form.scales, form.super_scales)
    if form.minima is None:
        return values
    assert form.super_minima is not None
    return values - along_k(form.minima, form.super_minima)


@pytest.mark.parametrize("transform", [None, RotaryRows(3)])
@pytest.mark.parametrize("name", GGUF_FORMATS)
def test_codes_and_scales_are_the_decoded_weights(name, transform):
    """To the rounding of float32 that a decoder makes."""
    stored = replace(random_tensor(name, (24, 512)), transform=transform)
    decoded = dequantize(stored, torch.float32)
    assert torch.equal(weights(coded(stored)).float(), decoded)


@pytest.mark.parametrize("name", GGUF_FORMATS)
def test_codes_have_as_many_bits_as_the_file(name):
    form = coded(random_tensor(name, (8, 256)))
    assert getattr(form, "bits", 4) == BITS[name]
    assert form.codes.max() == 2 ** BITS[name] - 1


def test_formats_with_a_minimum_have_minima():
    forms = {name: coded(random_tensor(name, (2, 256))) for name in GGUF_FORMATS}
    have = {name for name, form in forms.items() if getattr(form, "minima", None) is not None}
    assert have == {"Q4_1", "Q5_1", "Q4_K", "Q5_K"}
