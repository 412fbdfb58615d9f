"""What a precision makes of a checkpoint's tensors."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dayzero.checkpoint.tensor import StoredTensor
from dayzero.kernels.weights import Grouped, Nvfp4, PerChannel, TwoLevel
from dayzero.quant.dequantize import dequantize
from dayzero.quant.precision import ENCODERS, PRECISIONS, resolve, weight_bytes
from tests.quant.stored import random_tensor


def stored(*formats: str, inner: int = 512) -> list[StoredTensor]:
    return [replace(random_tensor(name, (8, inner)), name=f"{i} {name}") for i, name in enumerate(formats)]


def test_there_is_an_encoder_for_every_precision_but_the_choice_among_them():
    assert set(PRECISIONS) == {"auto", *ENCODERS}


@pytest.mark.parametrize(("formats", "expected"), [(["F32", "Q8_0"], "as-stored"), (["F32", "F16", "BF16"], "bf16")])
def test_auto_keeps_the_codes_of_a_file_that_has_any(formats, expected):
    tensors = {tensor.name: tensor for tensor in stored(*formats)}
    assert resolve("auto", tensors) == expected
    assert resolve("int8", tensors) == "int8"


def test_as_stored_keeps_neighbours_of_one_format_together():
    kinds = ENCODERS["as-stored"](stored("Q4_0", "Q4_0", "Q6_K", "BF16", "Q4_1"))
    assert [type(form) for form in kinds] == [Grouped, TwoLevel, Tensor, Grouped]
    assert [len(form if isinstance(form, Tensor) else form.codes) for form in kinds] == [16, 8, 8, 8]
    assert [form.bits for form in kinds if not isinstance(form, Tensor)] == [4, 6, 4]


@pytest.mark.parametrize(("precision", "kind"), [("bf16", Tensor), ("int8", Grouped), ("nvfp4", Nvfp4)])
def test_any_format_can_be_made_any_precision_in_one_piece(precision, kind):
    (form,) = ENCODERS[precision](stored("Q4_0", "F16"))
    assert isinstance(form, kind)
    assert len(form if isinstance(form, Tensor) else form.codes) == 16


def test_int8_is_rotated_where_its_width_is_whole_groups():
    (form,) = ENCODERS["int8"](stored("F32"))
    assert form.rotated
    (form,) = ENCODERS["int8"](stored("F32", inner=40))
    assert isinstance(form, PerChannel)


def test_a_width_that_nvfp4_cannot_group_stays_bf16():
    (form,) = ENCODERS["nvfp4"](stored("F32", inner=40))
    assert form.dtype is torch.bfloat16
    assert torch.equal(form, dequantize(stored("F32", inner=40)[0], torch.bfloat16))


def test_matrices_weigh_what_the_precision_says_and_the_rest_what_the_dtype_does():
    norm = StoredTensor("norm", (512,), "F32", memoryview(bytes(2048)))
    tensors = [*stored("F32"), norm]
    assert weight_bytes("bf16", tensors, torch.bfloat16) == 2 * (8 * 512 + 512)
    assert weight_bytes("int8", tensors, torch.bfloat16) == 8 * 512 * 34 // 32 + 2 * 512
    assert weight_bytes("float32", tensors, torch.float32) == 4 * (8 * 512 + 512)
    assert weight_bytes("as-stored", stored("Q4_0"), torch.bfloat16) == 8 * 512 // 32 * 18
