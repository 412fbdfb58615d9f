"""Native kernels or torch's, and why."""

import pytest
import torch

from dayzero.errors import ConfigError
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.choose import choose
from dayzero.kernels.native.backend import NativeKernels, obstacle
from dayzero.kernels.ops import DECODER_OPS
from dayzero.kernels.registry import Kernels

HEADS = HeadLayout(4, 2, 16)
WHY_NOT = obstacle(torch.bfloat16, HEADS, 16)


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_native_kernels_serve_where_they_can_and_say_so_for_every_op():
    kernels = choose(torch.bfloat16, HEADS, 16, 1)
    assert isinstance(kernels, NativeKernels)
    assert [choice.op for choice in kernels.choices] == [op.name for op in DECODER_OPS]
    assert all(choice.implementation.startswith("native/") and choice.reason for choice in kernels.choices)


@pytest.mark.parametrize(
    ("dtype", "heads", "block_size", "reason"),
    [
        (torch.float32, HEADS, 16, "compute in bfloat16, not in float32"),
        (torch.bfloat16, HeadLayout(4, 2, 24), 16, "24 is no multiple of 16"),
        (torch.bfloat16, HEADS, 8, "8 is no multiple of 16"),
        (torch.bfloat16, HeadLayout(4, 4, 16, is_causal=False), 16, "attend to what came before"),
    ],
)
def test_what_native_kernels_cannot_serve_goes_to_torch_with_the_reason_and_is_refused_if_they_were_asked_for(
    dtype, heads, block_size, reason
):
    kernels = choose(dtype, heads, block_size, 1)
    assert isinstance(kernels, Kernels)
    assert reason in next(choice.reason for choice in kernels.choices if choice.op == "linear")
    with pytest.raises(ConfigError, match=reason):
        choose(dtype, heads, block_size, 1, "native")


def test_torch_serves_when_it_was_asked_for():
    kernels = choose(torch.bfloat16, HEADS, 16, 1, "torch")
    assert isinstance(kernels, Kernels)
    assert any("torch was asked for" in choice.reason for choice in kernels.choices)


def test_a_wish_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(ConfigError) as refused:
        choose(torch.bfloat16, HEADS, 16, 1, "abacus")
    assert refused.value.hint == "known: auto, native, torch"
