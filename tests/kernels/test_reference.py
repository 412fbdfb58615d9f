"""The references against textbook forms, and their gradients."""

import math

import pytest
import torch
import torch.nn.functional as F

from dayzero.kernels import reference


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def test_rope_multiplies_complex_numbers_by_a_unit_phase(generator):
    x = torch.randn(5, 3, 8, generator=generator)
    angles = torch.randn(5, 4, generator=generator)
    cos, sin = angles.cos(), angles.sin()
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.complex(cos, sin)[:, None]
    out = reference.rope(x, torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1))
    torch.testing.assert_close(out, torch.cat([turned.real, turned.imag], -1))


def test_rms_norm_has_unit_mean_square_before_its_weight(generator):
    x = torch.randn(4, 32, generator=generator) * 7
    out = reference.rms_norm(x, torch.full((32,), 3.0), 0.0)
    torch.testing.assert_close(out.square().mean(-1), torch.full((4,), 9.0))


def test_write_kv_touches_the_slots_named_and_no_other(generator):
    pool = torch.zeros(3, 4, 2, 1, 2)
    kv = torch.randn(2, 2, 1, 2, generator=generator)
    reference.write_kv(pool, kv, torch.tensor([5, 11]))
    flat = pool.flatten(0, 1)
    assert torch.equal(flat[[5, 11]], kv)
    assert flat.count_nonzero() == kv.numel()


@pytest.mark.parametrize("window", [None, 1, 3, 100])
def test_paged_attention_is_dense_attention_over_the_tokens_in_order(generator, window):
    length, heads, groups, dim, size = 11, 4, 2, 8, 4
    q = torch.randn(length, heads, dim, generator=generator)
    kv = torch.randn(length, 2, groups, dim, generator=generator)
    table = [3, 1, 2]
    pool = torch.zeros(4, size, 2, groups, dim)
    for position in range(length):
        pool[table[position // size], position % size] = kv[position]
    k, v = (x.repeat_interleave(heads // groups, dim=1).transpose(0, 1) for x in kv.unbind(1))
    row, column = torch.arange(length)[:, None], torch.arange(length)
    seen = (column <= row) & (column > row - (window or length))
    expected = F.scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=seen).transpose(0, 1)
    out = reference.paged_attention(q, pool, [0, length], [0], [table], window=window)
    torch.testing.assert_close(out, expected)
    late = reference.paged_attention(
        q[6:], pool, [0, 2, 5], [6, 8], [table, table], scale=1 / math.sqrt(dim), window=window
    )
    torch.testing.assert_close(late, expected[6:])


def test_gradients_flow_through_every_differentiable_op(generator):
    def leaf(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(reference.linear, (leaf(3, 4), leaf(5, 4), leaf(5)))
    assert torch.autograd.gradcheck(reference.silu_mul, (leaf(3, 8),))
    assert torch.autograd.gradcheck(reference.gelu_mul, (leaf(3, 8),))
    q, pool = leaf(2, 2, 4), leaf(2, 4, 2, 1, 4)
    reference.paged_attention(q, pool, [0, 2], [1], [[1]]).sum().backward()
    assert pool.grad[1, :3].abs().sum() > 0
    assert pool.grad[1, 3].abs().sum() == 0  # the future
