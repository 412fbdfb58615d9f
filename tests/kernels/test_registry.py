"""The table of kernels."""

import dataclasses

import pytest
import torch

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.ops import DECODER_OPS, ENCODER_OPS, OPS
from dayzero.kernels.registry import select, select_reference

HEADS = HeadLayout(4, 2, 16)
OP_NAMES = {op.name for op in OPS}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_causal", [True, False], ids=["decoder", "encoder"])
def test_every_op_has_a_function_and_each_that_is_called_one_choice_with_a_reason(dtype, is_causal):
    kernels = select(dtype, HeadLayout(4, 4, 16, is_causal=is_causal))
    called = DECODER_OPS if is_causal else ENCODER_OPS
    assert sorted(choice.op for choice in kernels.choices) == sorted(op.name for op in called)
    assert all(choice.implementation and choice.reason for choice in kernels.choices)
    assert all(callable(getattr(kernels, name)) for name in OP_NAMES)


def test_the_table_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        select_reference().linear = None


def test_a_choice_called_reference_is_the_reference():
    kernels = select(torch.float32, HEADS)
    named = {choice.op for choice in kernels.choices if choice.implementation == "reference"}
    assert all(getattr(kernels, op.name) is op.reference for op in OPS if op.name in named)


def test_the_reference_table_holds_the_references():
    kernels = select_reference()
    assert {choice.op for choice in kernels.choices} == OP_NAMES
    planned = "paged_attention"  # takes its plan where the reference takes what the plan is made of
    assert all(getattr(kernels, op.name) is op.reference for op in OPS if op.name != planned)


def test_the_reference_attention_is_the_reference_of_its_plan():
    kernels, op = select_reference(), next(op for op in OPS if op.name == "paged_attention")
    generator = torch.Generator().manual_seed(0)
    pool = torch.randn(5, 16, 2, 2, 16, generator=generator)
    q = torch.randn(3, 4, 16, generator=generator)
    plan = kernels.plan_attention([0, 2, 3], [5, 20], [[1], [2, 3]], 16, 8)
    expected = op.reference(q, pool, [0, 2, 3], [5, 20], [[1], [2, 3]], scale=0.5, window=8)
    assert torch.equal(kernels.paged_attention(q, pool, plan, 0.5), expected)


def test_heights_tell_of_every_weight_that_was_prepared():
    kernels = select(torch.float32, HEADS)
    assert set(kernels.heights()) == {"attention"}
    kernels.prepare_linear(torch.randn(64, 32))
    assert set(kernels.heights()) == {"attention", "32x64"}
