"""K and V as they are stored, and what is lost."""

import pytest
import torch

from dayzero.kernels import reference
from dayzero.kernels.kv_format import KV_DTYPES, decode, encode, head_bytes, head_dim_of, head_elements


@pytest.mark.parametrize("name", KV_DTYPES)
def test_a_pool_of_any_dtype_says_the_size_of_its_heads(name: str) -> None:
    dtype = KV_DTYPES[name]
    pool = torch.zeros(3, 16, 2, 5, head_elements(64, dtype), dtype=dtype)
    assert head_dim_of(pool) == 64
    assert pool.nbytes == 3 * 16 * 2 * 5 * head_bytes(64, dtype)


def test_int8_takes_a_byte_for_each_number_and_four_for_the_scale() -> None:
    assert [head_bytes(64, KV_DTYPES[name]) for name in ("bf16", "int8", "float32")] == [128, 68, 256]


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e30])
def test_int8_is_off_by_half_a_step_at_most(size: float) -> None:
    x = torch.randn(7, 3, 48, generator=torch.Generator().manual_seed(0)) * size
    step = x.abs().amax(-1, keepdim=True) / 127
    again = decode(encode(x, torch.int8))
    assert ((again - x).abs() <= step / 2 * (1 + 1e-5)).all()
    assert torch.equal(again.argmax(-1), x.argmax(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_numbers_are_stored_as_they_are(dtype: torch.dtype) -> None:
    x = torch.randn(5, 16, dtype=dtype)
    assert torch.equal(encode(x, dtype), x)
    assert torch.equal(decode(x), x.float())


def test_a_head_without_a_number_of_size_is_zeros() -> None:
    x = torch.tensor([[0.0] * 16, [1e-31] * 16])
    assert not decode(encode(x, torch.int8)).round(decimals=30).any()


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_a_number_that_is_not_finite_takes_its_head_with_it_and_no_other(value: float) -> None:
    x = torch.ones(3, 16)
    x[1, 4] = value
    assert decode(encode(x, torch.int8)).isnan().any(-1).tolist() == [False, True, False]
    assert decode(encode(x, torch.int8))[1].isnan().all()


def test_the_reference_attends_to_int8_as_stored() -> None:
    q, kv = torch.randn(5, 4, 16), torch.randn(5, 2, 2, 16)
    pools = {}
    for dtype in (torch.int8, torch.float32):
        pools[dtype] = torch.zeros(2, 8, 2, 2, head_elements(16, dtype), dtype=dtype)
    reference.write_kv(pools[torch.int8], kv, torch.arange(8, 13))
    reference.write_kv(pools[torch.float32], decode(encode(kv, torch.int8)), torch.arange(8, 13))
    outs = [reference.paged_attention(q, pool, [0, 5], [0], [[1]]) for pool in pools.values()]
    assert torch.equal(*outs)
