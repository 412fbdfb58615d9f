"""AWQ's and GPTQ's files, written by an encoder of the tests' own, against what the codes mean."""

import pytest
import torch
from torch import Tensor

from dayzero.checkpoint.packing import AWQ, GPTQ, GPTQ_V2, PACKINGS, assemble
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import CheckpointError
from dayzero.kernels.weights import Grouped
from dayzero.quant.codes import coded
from dayzero.quant.dequantize import dequantize
from dayzero.quant.packed import unpacked
from dayzero.quant.precision import ENCODERS, resolve, weight_bytes
from tests.quant.packing import meant, packed, stored

by_packing = pytest.mark.parametrize("packing", PACKINGS)


def drawn(features: int, inner: int, group: int, least_zero: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Any codes and zeros, and scales that float16 holds."""
    generator = torch.Generator().manual_seed(features + inner + group)
    codes = torch.randint(16, (features, inner), generator=generator).to(torch.uint8)
    zeros = torch.randint(least_zero, 16, (features, inner // group), generator=generator).to(torch.uint8)
    return codes, zeros, (torch.rand(zeros.shape, generator=generator) + 0.01).half()


def weight(packing: str, parts: dict[str, Tensor]) -> StoredTensor:
    return assemble(stored(parts), packing, {})["w.weight"]


def values(form: Grouped) -> Tensor:
    """[N, K] float64, inputs in order."""
    zeros = torch.full_like(form.scales, 8) if form.zeros is None else form.zeros
    in_codes = meant(form.codes, zeros, form.scales)
    return in_codes if form.order is None else in_codes[:, form.order.argsort()]


@by_packing
@pytest.mark.parametrize(("features", "inner", "group"), [(8, 32, 32), (24, 192, 64), (40, 256, 128), (16, 96, 32)])
def test_codes_zeros_and_scales_are_those_that_were_packed(packing, features, inner, group):
    codes, zeros, scales = drawn(features, inner, group)
    form = unpacked(weight(packing, packed(packing, codes, zeros, scales)))
    assert form.zeros is not None
    assert torch.equal(form.codes, codes)
    assert torch.equal(form.zeros, zeros)
    assert torch.equal(form.scales, scales)
    assert form.order is None


@by_packing
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dequantised_weights_are_what_the_codes_mean_rounded_once(packing, dtype):
    numbers = drawn(24, 192, 64)
    assert torch.equal(dequantize(weight(packing, packed(packing, *numbers)), dtype), meant(*numbers).float().to(dtype))


@by_packing
def test_zeros_in_the_middle_are_not_kept(packing):
    codes, _, scales = drawn(8, 64, 32)
    form = unpacked(weight(packing, packed(packing, codes, torch.full((8, 2), 8, dtype=torch.uint8), scales)))
    assert form.zeros is None


@pytest.mark.parametrize(
    ("inner", "group", "known"), [(96, 96, 32), (320, 320, 64), (512, 256, 128), (1024, 1024, 128)]
)
@by_packing
def test_groups_of_other_sizes_are_cut_into_those_that_kernels_know(packing, inner, group, known):
    numbers = drawn(8, inner, group)
    form = unpacked(weight(packing, packed(packing, *numbers)))
    assert form.group == known
    assert torch.equal(values(form), meant(*numbers))


@pytest.mark.parametrize("packing", [GPTQ, GPTQ_V2])
def test_inputs_whose_groups_are_scattered_are_put_in_order(packing):
    codes, zeros, scales = drawn(16, 128, 32)
    order = torch.randperm(128, generator=torch.Generator().manual_seed(0)).tolist()
    tensor = weight(packing, packed(packing, codes, zeros, scales, order))
    in_order = torch.empty(16, 128, dtype=torch.float64)
    in_order[:, order] = meant(codes, zeros, scales)
    assert torch.equal(values(unpacked(tensor)), in_order)
    assert torch.equal(dequantize(tensor, torch.float32), in_order.float())


def test_groups_of_unequal_sizes_are_refused():
    parts = packed(GPTQ, *drawn(8, 64, 32))
    parts["g_idx"][0] = 1
    with pytest.raises(CheckpointError, match=r"groups of w\.weight: its g_idx does not give 32 inputs"):
        unpacked(weight(GPTQ, parts))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scales_of_another_dtype_are_taken_as_float16(dtype):
    codes, zeros, scales = drawn(8, 64, 32)
    scales = scales.bfloat16().half()
    form = unpacked(weight(AWQ, packed(AWQ, codes, zeros, scales.to(dtype))))
    assert torch.equal(form.scales, scales)


@by_packing
def test_auto_keeps_packed_codes_and_any_precision_can_be_made_of_them(packing):
    parts = [weight(packing, packed(packing, *drawn(16, 64, 32))) for _ in range(2)]
    assert resolve("auto", {"a": parts[0]}) == "as-stored"
    (form,) = ENCODERS["as-stored"](parts)
    assert isinstance(form, Grouped)
    assert form.codes.shape == (32, 64)
    for precision in ("bf16", "int8", "nvfp4"):
        assert len(ENCODERS[precision](parts)) == 1


def test_weights_with_zeros_and_without_stay_apart_as_do_those_of_other_orders():
    codes, zeros, scales = drawn(8, 64, 32, least_zero=9)
    orders = [None, list(range(63, -1, -1))]
    parts = [weight(GPTQ, packed(GPTQ, codes, z, scales, o)) for z in (zeros, zeros * 0 + 8) for o in orders]
    assert len(ENCODERS["as-stored"](parts)) == 4
    assert len(ENCODERS["as-stored"]([parts[1], parts[1]])) == 1


def test_a_packed_weight_weighs_its_codes_its_zeros_and_its_scales():
    tensor = weight(AWQ, packed(AWQ, *drawn(16, 128, 128)))
    assert weight_bytes("as-stored", [tensor], torch.bfloat16) == 16 * 128 // 2 + 16 // 2 + 16 * 2


def test_the_steps_between_packed_weights_are_their_scales():
    from dayzero.workshop.fidelity.degrid import steps

    codes, zeros, scales = drawn(8, 64, 32)
    order = list(range(63, -1, -1))
    tensor = weight(GPTQ, packed(GPTQ, codes, zeros, scales, order))
    assert torch.equal(steps(tensor), scales.float().repeat_interleave(32, 1)[:, order])
    assert coded(tensor).order is not None
