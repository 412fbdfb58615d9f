"""Codes and scales against the decoded weights."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dayzero.checkpoint.tensor import FORMATS, RotaryRows
from dayzero.kernels.weights import GROUP, Grouped
from dayzero.quant.codes import CODED_FORMATS, grouped
from dayzero.quant.dequantize import dequantize
from tests.quant.stored import random_tensor

GGUF_FORMATS = sorted(CODED_FORMATS & FORMATS.keys())
TWO_LEVEL = {"Q4_K", "Q5_K"}


def weights(form: Grouped) -> Tensor:
    """[N, K] float64, as the definition says."""
    offset = 0 if form.minima is not None else 2 ** (form.bits - 1)
    values = (form.codes.double() - offset).view(len(form.codes), -1, GROUP) * form.scales.double().unsqueeze(-1)
    if form.minima is not None:
        values += form.minima.double().unsqueeze(-1)
    return values.flatten(1)


@pytest.mark.parametrize("transform", [None, RotaryRows(3)])
@pytest.mark.parametrize("name", GGUF_FORMATS)
def test_codes_and_scales_are_the_decoded_weights(name, transform):
    """To float32's rounding; where scales are multiplied out and stored as float16, to theirs."""
    stored = replace(random_tensor(name, (24, 512)), transform=transform)
    decoded = dequantize(stored, torch.float32).double()
    tolerance = 2.0**-10 if name in TWO_LEVEL else 2.0**-23
    assert (weights(grouped(stored)) - decoded).abs().max() <= tolerance * decoded.abs().max()


@pytest.mark.parametrize("name", GGUF_FORMATS)
def test_codes_stay_within_their_bits(name):
    form = grouped(random_tensor(name, (8, 256)))
    largest = form.codes.max().item()
    assert largest < 2**form.bits
    assert form.bits == 4 or largest > 15


def test_formats_with_a_minimum_have_minima():
    assert {name for name in GGUF_FORMATS if grouped(random_tensor(name, (2, 256))).minima is not None} == {
        "Q4_1",
        "Q5_1",
        "Q4_K",
        "Q5_K",
    }
