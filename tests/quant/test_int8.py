"""Eight bits by feature and by group."""

import pytest
import torch

from dayzero.quant.int8 import by_group, per_channel, rotated, rotated_by_group


def draw(features, inner):
    return torch.randn(features, inner, generator=torch.Generator().manual_seed(0))


def test_a_channel_is_rounded_to_the_nearest_of_its_steps():
    w = draw(5, 100)
    form = per_channel(w)
    rounded = (form.codes.double() - 128) * form.scales.double().unsqueeze(-1)
    assert ((rounded - w).abs() <= form.scales.double().unsqueeze(-1) * 0.5001).all()
    assert torch.equal((form.codes.int() - 128).abs().amax(-1), torch.full((5,), 127, dtype=torch.int32))


def test_a_group_is_rounded_with_the_scale_as_it_is_stored():
    w = draw(4, 96)
    form = by_group(w)
    steps = form.scales.double().repeat_interleave(32, dim=1)
    error = ((form.codes.double() - 128) * steps - w).abs()
    inside = w.abs() <= 127 * steps  # a scale that was rounded down cuts the largest weight off
    assert (error[inside] <= steps[inside] * 0.5001).all()
    assert (error <= steps).all()


@pytest.mark.parametrize("quantize", [per_channel, by_group, rotated_by_group])
def test_zeros_stay_zeros(quantize):
    form = quantize(torch.zeros(3, 32))
    assert (form.codes == 128).all()
    assert (form.scales == 0).all()


@pytest.mark.parametrize("quantize", [per_channel, by_group, rotated_by_group])
@pytest.mark.parametrize("slice_weights", [1, 100, 1 << 20])
def test_the_size_of_a_slice_changes_nothing(quantize, slice_weights, monkeypatch):
    w = draw(7, 96)
    whole = quantize(w)
    monkeypatch.setattr("dayzero.quant.dequantize.SLICE_WEIGHTS", slice_weights)
    assert torch.equal(quantize(w).codes, whole.codes)
    assert torch.equal(quantize(w).scales, whole.scales)


def test_rotation_is_its_own_inverse_and_keeps_products():
    x, w = draw(5, 96).double(), draw(7, 96).double().flip(0)
    assert torch.allclose(rotated(rotated(x)), x, rtol=0, atol=1e-6)
    assert torch.allclose(rotated(x) @ rotated(w).T, x @ w.T, rtol=0, atol=1e-5)


def test_rotation_shares_what_is_large_in_one_channel_among_all_of_its_group():
    x = torch.zeros(64)
    x[40] = 32**0.5
    assert torch.allclose(rotated(x).abs(), torch.tensor([0.0] * 32 + [1.0] * 32))
