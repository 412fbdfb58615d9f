"""The code for AVX2 where it differs from that for AVX-512: products, scores, tails of eight lanes, exponentials."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from dayzero.kernels.native.backend import NativeKernels, flat_step
from dayzero.kernels.native.extension import module
from dayzero.kernels.native.recorder import GroupOf, Plan, Symbol, Tape
from dayzero.kernels.weights import Grouped, LinearForm, Nvfp4, PerChannel
from dayzero.quant.int8 import per_channel
from dayzero.quant.nvfp4 import nvfp4
from tests.kernels.native.weights import as_met, dequantised

FLOAT32_RATIO = 2e-6  # of the largest sum: a few hundred roundings
BLOCK_SIZE = 16


@pytest.fixture(scope="module")
def kernels() -> NativeKernels:
    native = module()
    if native is None:
        pytest.skip("the native kernels are not built")
    missing = native.missing("avx2")
    if missing:
        pytest.skip(f"native/avx2 needs {missing}")
    return NativeKernels(2, "avx2")


def seeded(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def computed(
    kernels: NativeKernels,
    x_TE: Tensor,
    record: Callable[[Tape, Symbol], Symbol],
    table: Sequence[int] = (),
    first: int = 0,
) -> Tensor:
    """What a recorded pass makes of the rows of one request."""
    tape = Tape()
    x = tape.symbol(x_TE.shape[1], "tokens")
    out = record(tape, x)
    program = kernels.program(tape, [x, out])
    T = len(x_TE)
    step = flat_step([0] * T, [], [0, T], [first], [[table or [0] * T]], BLOCK_SIZE)
    program.read(step)
    program.view(x, T).copy_(x_TE)
    program.run()
    return program.view(out, T).clone()


def product(kernels: NativeKernels, x_TK: Tensor, form: LinearForm) -> Tensor:
    weight = kernels.prepare_linear([form])
    return computed(kernels, x_TK, lambda tape, x: tape.linear(x, weight))


def grouped(bits: int, has_minima: bool, codes_NK: Tensor) -> Grouped:
    scales = (seeded(len(codes_NK), codes_NK.shape[1] // 32).abs() / 64 + 0.01).half()
    return Grouped(bits, codes_NK, scales, minima=seeded(*scales.shape).half() if has_minima else None)


def random_codes(bits: int, features: int, inner: int) -> Tensor:
    return torch.randint(0, 2**bits, (features, inner), generator=torch.Generator().manual_seed(7), dtype=torch.uint8)


def form_of(name: str, features: int, inner: int) -> LinearForm:
    w_NK = seeded(features, inner) / 20
    match name:
        case "bf16":
            return w_NK.bfloat16()
        case "nvfp4":
            return nvfp4(w_NK)
        case "channel":
            return per_channel(w_NK)
        case _:
            bits = int(name[3])
            return grouped(bits, name.endswith("min"), random_codes(bits, features, inner))


FORMS = ["bf16", "int4", "int4min", "int5", "int5min", "int8", "channel", "nvfp4"]


def in_float64(form: LinearForm) -> tuple[Tensor, int]:
    """The weight, and the group of the activations that meet it; 0: they are bfloat16."""
    if isinstance(form, Tensor | Nvfp4):
        return dequantised(form), 0
    return dequantised(form), 64 if isinstance(form, PerChannel) else 32


def assert_as_good_as_float32(out: Tensor, expected: Tensor) -> None:
    assert (out.double() - expected).abs().max() <= FLOAT32_RATIO * expected.abs().max()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("features", "inner"), [(1, 32), (33, 64), (100, 576)])
def test_products_agree_with_float64(kernels: NativeKernels, name: str, features: int, inner: int) -> None:
    form, x_TK = form_of(name, features, inner), seeded(7, inner)
    w_NK, group = in_float64(form)
    assert_as_good_as_float32(product(kernels, x_TK, form), as_met(x_TK, group) @ w_NK.T)


@pytest.mark.parametrize("name", ["bf16", "channel"])
def test_k_need_not_be_a_whole_group(kernels: NativeKernels, name: str) -> None:
    form, x_TK = form_of(name, 9, 35), seeded(2, 35)
    w_NK, group = in_float64(form)
    assert_as_good_as_float32(product(kernels, x_TK, form), as_met(x_TK, group) @ w_NK.T)


def test_activations_are_rounded_to_the_nearest_bfloat16_ties_to_even(kernels: NativeKernels) -> None:
    values = [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20, 3e38, 1e-40, -0.0, torch.inf, torch.nan]
    x_TK = torch.tensor(values).unsqueeze(1)
    out = product(kernels, x_TK, torch.ones(1, 1, dtype=torch.bfloat16))
    torch.testing.assert_close(out, x_TK.bfloat16().float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", FORMS)
def test_a_row_of_a_product_has_the_same_bits_in_any_company(kernels: NativeKernels, name: str) -> None:
    form, x_TK = form_of(name, 40, 96), seeded(33, 96)
    together = product(kernels, x_TK, form)
    for rows in (*range(1, 10), 16):
        assert torch.equal(product(kernels, x_TK[:rows], form), together[:rows]), rows


@pytest.mark.parametrize(("bits", "has_minima"), [(4, False), (4, True), (5, False), (5, True), (8, False)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_codes_do_not_overflow(kernels: NativeKernels, bits: int, has_minima: bool, sign: float) -> None:
    form = grouped(bits, has_minima, torch.full((32, 64), 2**bits - 1, dtype=torch.uint8))
    x_TK = torch.full((3, 64), sign)
    w_NK, group = in_float64(form)
    assert_as_good_as_float32(product(kernels, x_TK, form), as_met(x_TK, group) @ w_NK.T)


def attention_in_float64(q_TD: Tensor, k_SD: Tensor, v_SD: Tensor, window: int | None) -> Tensor:
    """One head; the rows are the last positions."""
    T, S = len(q_TD), len(k_SD)
    q, k, v = (x.bfloat16().double() for x in (q_TD, k_SD, v_SD))
    scores = q @ k.T / k.shape[1] ** 0.5
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)
    unseen = (distance < 0) if window is None else (distance < 0) | (distance >= window)
    mixed: Tensor = scores.masked_fill(unseen, -torch.inf).softmax(-1) @ v
    return mixed


@pytest.mark.parametrize(("num_heads", "head_dim"), [(1, 16), (3, 64), (7, 48)])
@pytest.mark.parametrize("window", [None, 20])
def test_attention_agrees_with_float64(
    kernels: NativeKernels, num_heads: int, head_dim: int, window: int | None
) -> None:
    """In two chunks over scattered blocks; what no token was written to is not a number."""
    T, first, table = 90, 37, [5, 2, 9, 0, 7, 3]
    kv_BS2GD = torch.full((10, BLOCK_SIZE, 2, 1, head_dim), torch.nan, dtype=torch.bfloat16)
    kv_BS2GD[table] = 0
    qkv = seeded(T, (num_heads + 2) * head_dim)
    still = (torch.ones(T, head_dim), torch.zeros(T, head_dim))  # turns nothing

    def record(tape: Tape, x: Symbol) -> Symbol:
        stored = tape.rope_and_write_kv(x, None, still, kv_BS2GD, GroupOf(0))
        return tape.paged_attention(stored, kv_BS2GD, Plan(0, window))

    computed(kernels, qkv[:first], record, table)
    out = computed(kernels, qkv[first:], record, table, first).view(T - first, -1, head_dim)
    heads = qkv.view(T, -1, head_dim)
    for head in range(num_heads):
        expected = attention_in_float64(heads[first:, head], heads[:, -2], heads[:, -1], window)
        assert_as_good_as_float32(out[:, head], expected)


@pytest.mark.parametrize("width", [1, 7, 8, 35])
def test_a_norm_of_any_width_agrees_with_float64(kernels: NativeKernels, width: int) -> None:
    x_TE, weight = seeded(3, width), seeded(width) + 2
    out = computed(kernels, x_TE, lambda tape, x: tape.rms_norm(x, weight, 1e-5))
    x = x_TE.double()
    assert_as_good_as_float32(out, x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double())


def test_a_gate_far_out_saturates(kernels: NativeKernels) -> None:
    gate = torch.tensor([-1e30, -200.0, -103.0, -88.0, -87.0, -1.0, 0.0, 1.0, 87.0, 88.5, 89.0, 200.0, 1e30])
    gate_up = torch.cat([gate, torch.ones_like(gate)]).unsqueeze(0)
    out = computed(kernels, gate_up, lambda tape, x: tape.silu_mul(x))[0]
    expected = torch.nn.functional.silu(gate.double())
    assert torch.allclose(out.double(), expected, rtol=1e-6, atol=1e-36)  # e^88 and more is near the end of float32


def test_an_instruction_set_is_chosen_by_name(kernels: NativeKernels) -> None:
    assert {choice.implementation for choice in kernels.choices} == {"native/avx2"}
    assert {choice.reason for choice in kernels.choices} == {"asked for: avx2"}
    with pytest.raises(ValueError, match="instruction set sse needs"):
        module().Program(module().ThreadPool(1, 0), "sse")  # type: ignore[union-attr]
