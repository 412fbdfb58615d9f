"""NVFP4 against its definition."""

import pytest
import torch

from dayzero.quant.nvfp4 import E2M1, dequantized, nvfp4


def on_the_grid(features, inner):
    """Weights that NVFP4 holds exactly: each group has a 6, and scales are powers of two."""
    generator = torch.Generator().manual_seed(0)
    values = torch.tensor([*E2M1, *(-x for x in E2M1)])
    groups = values[torch.randint(16, (features, inner // 16, 16), generator=generator)]
    groups[..., 0] = 6.0
    powers = torch.randint(-4, 5, (features, inner // 16, 1), generator=generator)
    powers[0, 0] = 4
    return (groups * torch.exp2(powers.float()) * (256 / 16)).flatten(1)  # the largest scale is 256


def test_weights_on_the_grid_are_kept_exactly():
    w = on_the_grid(8, 64)
    assert torch.equal(dequantized(nvfp4(w)), w)


def test_every_weight_becomes_the_nearest_that_its_scale_allows():
    w = torch.randn(16, 128, generator=torch.Generator().manual_seed(1))
    form = nvfp4(w)
    steps = (form.scales.float() * form.global_scale).repeat_interleave(16, dim=1).double()
    grid = torch.tensor([*E2M1, *(-x for x in E2M1)]).double()
    nearest = (w.double().unsqueeze(-1) - grid * steps.unsqueeze(-1)).abs().amin(-1)
    error = (dequantized(form).double() - w).abs()
    assert (error <= nearest + 1e-6 * steps).all()


def test_the_largest_of_a_group_becomes_four_where_that_is_nearer():
    w = torch.zeros(1, 32)
    w[0, 16] = 6.0 * 256
    w[0, :4] = torch.tensor([12.0, 9.0, 9.0, 9.0])  # 6 would make the nines 4 or 5: both are far
    assert torch.equal(dequantized(nvfp4(w))[0, :4], w[0, :4])


def test_a_tie_goes_to_the_even_code():
    """With a scale of one: 256 * 6 elsewhere sets the scale of the tensor, and a 6 that of the group."""
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    w = torch.zeros(1, 32)
    w[0, :7], w[0, 7], w[0, 8:16], w[0, 16] = ties, 6.0, 4.0, 6.0 * 256  # the fours want the 6
    assert dequantized(nvfp4(w))[0, :8].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0]


def test_zeros_stay_zeros():
    assert torch.equal(dequantized(nvfp4(torch.zeros(2, 32))), torch.zeros(2, 32))


@pytest.mark.parametrize("slice_weights", [1, 100, 1 << 20])
def test_the_size_of_a_slice_changes_nothing(slice_weights, monkeypatch):
    w = torch.randn(7, 96, generator=torch.Generator().manual_seed(1))
    whole = dequantized(nvfp4(w))
    monkeypatch.setattr("dayzero.quant.dequantize.SLICE_WEIGHTS", slice_weights)
    assert torch.equal(dequantized(nvfp4(w)), whole)
