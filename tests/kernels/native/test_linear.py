"""Products in every weight format: exact where integers meet, else as near to float64 as float32 sums can be."""

import dataclasses
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from dayzero.kernels.native.backend import NativeKernels, NativeWeight
from dayzero.kernels.native.recorder import SAMPLE_AT, Tape
from dayzero.kernels.weights import Grouped, LinearForm, Mxfp4, Nvfp4, PerChannel, TwoLevel
from dayzero.quant.int8 import rotated
from tests.kernels.native.replay import (
    MOST_ROWS,
    NUM_ROWS,
    Machine,
    Replay,
    assert_rows_are_invariant,
    draw,
    replay,
    rows_step,
    same_bits,
)
from tests.kernels.native.weights import FORMATS, as_met, dequantised, inner_of

pytestmark = pytest.mark.model  # a minute of products

FEATURES = [1, 31, 33, 100]
INNER = [1, 31, 32, 65, 96, 128, 576, 768, 1536]

by_format = pytest.mark.parametrize("name", FORMATS)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def product(machine: Machine, forms: Sequence[LinearForm], inner: int, bias: Tensor | None = None) -> Replay:
    return product_with(machine, NativeKernels(1).prepare_linear(forms), inner, bias)


def product_with(machine: Machine, weight: NativeWeight, inner: int, bias: Tensor | None = None) -> Replay:
    tape = Tape()
    x = tape.symbol(inner, "tokens")
    return replay(machine, tape, [x], [tape.linear(x, weight, bias)])


def run(program: Replay, x: Tensor) -> Tensor:
    return program(rows_step(len(x)), x)[0]


def assert_near(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Off by no more than float32 sums of K products, whose roundings add up like a random walk.

    What is below the least normal may count as 0.
    """
    judge, size = x @ weight.T, x.abs() @ weight.abs().T
    if bias is not None:
        judge, size = judge + bias.double(), size + bias.double().abs()
    roundings = 4 * (x.shape[1] + 4) ** 0.5
    least = 2**-126 * (2 * weight.abs().sum(1) + x.shape[1])
    assert ((out.double() - judge).abs() <= roundings * 2**-24 * size + least).all()


def shapes_of(name: str) -> list[tuple[int, int]]:
    return [(n, k) for n in FEATURES for k in INNER if k % FORMATS[name].inner_multiple == 0]


FORMAT_SHAPES = [(name, *shape) for name in FORMATS for shape in shapes_of(name)]
by_shape = pytest.mark.parametrize(("name", "features", "inner"), FORMAT_SHAPES)


@by_shape
def test_products_of_integers_are_exact(machine: Machine, name: str, features: int, inner: int) -> None:
    kind = FORMATS[name]
    form = kind.integers(features, inner, generator())
    program = product(machine, [form], inner)
    for rows in (0, 1, 2, 5, 7, 13, 33):
        most = 127 if kind.activation_group else 8
        x = torch.randint(-most, most + 1, (rows, inner), generator=generator(rows)).float()
        if kind.activation_group:  # so that every group's scale is 1
            x[:, :: kind.activation_group] = 127
        assert torch.equal(run(program, x).double(), x.double() @ dequantised(form).T)


@by_shape
def test_products_are_as_good_as_float32_allows(machine: Machine, name: str, features: int, inner: int) -> None:
    kind = FORMATS[name]
    form, bias = kind.draw(features, inner, generator()), draw(features)
    weight = dequantised(form)
    plain, biased = product(machine, [form], inner), product(machine, [form], inner, bias)
    for rows in (0, 1, 4, 5, 17, 33):
        x = draw(rows, inner, seed=rows)
        met = as_met(x, kind.activation_group)
        assert_near(run(plain, x), met, weight)
        assert_near(run(biased, x), met, weight, bias)


@by_format
@pytest.mark.parametrize("least", [96, 576])
def test_a_row_of_a_product_has_the_same_bits_in_any_company(machine: Machine, name: str, least: int) -> None:
    inner = inner_of(name, least)
    program = product(machine, [FORMATS[name].draw(100, inner, generator())], inner, draw(100))
    assert_rows_are_invariant(lambda x: (run(program, x),), draw(MOST_ROWS, inner))


@by_format
def test_a_row_of_a_product_has_the_same_bits_with_one_thread_and_with_two(machine: Machine, name: str) -> None:
    inner = inner_of(name, 96)
    form, x = FORMATS[name].draw(300, inner, generator()), draw(MOST_ROWS, inner)
    alone = Machine(machine.native, machine.instruction_set, machine.native.ThreadPool(1, 50))
    one, other = product(alone, [form], inner), product(machine, [form], inner)
    for rows in NUM_ROWS:
        assert same_bits(run(one, x[:rows]), run(other, x[:rows]))


def test_parts_of_any_format_lie_one_under_the_other(machine: Machine) -> None:
    inner = math.lcm(*(kind.inner_multiple for kind in FORMATS.values()))
    counts = [1 + 31 * i % 97 for i in range(len(FORMATS))]
    forms = [kind.draw(n, inner, generator()) for n, kind in zip(counts, FORMATS.values(), strict=True)]
    x, bias = draw(9, inner), draw(sum(counts))
    together = run(product(machine, forms, inner, bias), x)
    start = 0
    for form, count in zip(forms, counts, strict=True):
        alone = run(product(machine, [form], inner, bias[start : start + count]), x)
        assert same_bits(together[:, start : start + count], alone)
        start += count


@by_format
def test_the_head_computes_the_sampled_rows_only(machine: Machine, name: str) -> None:
    inner = inner_of(name, 96)
    form, x = FORMATS[name].draw(70, inner, generator()), draw(20, inner)
    tape = Tape()
    symbol = tape.symbol(inner, "tokens")
    weight = NativeKernels(1).prepare_linear([form])
    program = replay(machine, tape, [symbol], [tape.linear(symbol[SAMPLE_AT], weight)])
    alone = product(machine, [form], inner)
    for sample_at in ([], [3], [19, 0, 7, 8, 9, 1]):
        assert same_bits(program(rows_step(20, sample_at), x)[0], run(alone, x[sample_at]))


@by_format
def test_a_weight_with_an_order_meets_its_inputs_in_that_order(machine: Machine, name: str) -> None:
    form = FORMATS[name].draw(70, inner_of(name, 96), generator())
    if not isinstance(form, Grouped):
        pytest.skip("codes by group alone have an order")
    inner = form.codes.shape[1]
    order = torch.randperm(inner, generator=generator()).int()
    ordered = product(machine, [dataclasses.replace(form, order=order), form], inner)
    plain = product(machine, [form], inner)
    for rows in NUM_ROWS:
        x = draw(rows, inner)
        expected = torch.cat([run(plain, x[:, order]), run(plain, x)], dim=1)
        assert same_bits(run(ordered, x), expected)


def test_an_order_beyond_the_inputs_is_refused() -> None:
    form = FORMATS["int4"].draw(4, 64, generator())
    assert isinstance(form, Grouped)
    for wrong in (-1, 64):
        order = torch.arange(64, dtype=torch.int32)
        order[5] = wrong
        with pytest.raises(ValueError, match="an order names inputs"):
            NativeKernels(1).prepare_linear([dataclasses.replace(form, order=order)])


# -- rotated weights ---------------------------------------------------------------------------------------------------


def rotated_form(features: int, inner: int) -> Grouped:
    return dataclasses.replace(FORMATS["int8"].integers(features, inner, generator()), rotated=True)


@pytest.mark.parametrize(("features", "inner"), [(1, 32), (33, 96), (100, 576)])
@pytest.mark.parametrize("rows", [1, 3, 13, 40])
def test_a_rotated_weight_meets_activations_that_are_rotated_first(
    machine: Machine, features: int, inner: int, rows: int
) -> None:
    form = rotated_form(features, inner)
    codes = torch.randint(-127, 128, (rows, inner), generator=generator()).double()
    codes[:, ::32] = 127  # so that every group's scale is 1
    out = run(product(machine, [form], inner), rotated(codes).float())
    judge = codes @ dequantised(form).T
    assert ((out - judge).abs() <= 2e-6 * (codes.abs() @ dequantised(form).abs().T)).all()


def test_a_row_of_a_product_with_rotated_weights_has_the_same_bits_in_any_company(machine: Machine) -> None:
    program = product(machine, [rotated_form(100, 96)], 96)
    assert_rows_are_invariant(lambda x: (run(program, x),), draw(MOST_ROWS, 96))


# -- hostile values ----------------------------------------------------------------------------------------------------


@by_format
@pytest.mark.parametrize("poison", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("rows", [3, 16])
def test_an_activation_that_is_not_finite_stays_in_its_row(
    machine: Machine, name: str, poison: float, rows: int
) -> None:
    inner = inner_of(name, 96)
    program = product(machine, [FORMATS[name].draw(33, inner, generator())], inner)
    x = draw(rows, inner)
    clean = run(program, x)
    x[1, 70] = poison
    out = run(program, x)
    assert not out[1].isfinite().any()
    others = [row for row in range(rows) if row != 1]
    assert same_bits(out[others], clean[others])


@by_format
@pytest.mark.parametrize("size", [0.0, -0.0, 1e-38, 9e-31, 1e-29, 1e-10, 1e10, 1e30])
def test_activations_of_any_size_agree_with_float64(machine: Machine, name: str, size: float) -> None:
    kind, inner = FORMATS[name], inner_of(name, 96)
    form = kind.draw(33, inner, generator())
    x = draw(4, inner) * size
    x[1, :64] = 0  # a group of zeros beside others
    assert_near(run(product(machine, [form], inner), x), as_met(x, kind.activation_group), dequantised(form))


@by_format
def test_halves_are_rounded_to_even(machine: Machine, name: str) -> None:
    kind, inner = FORMATS[name], inner_of(name, 128)
    form = kind.integers(33, inner, generator())
    x = (torch.arange(inner).float() % 128 - 64).repeat(2, 1) + 0.5
    if not kind.activation_group:
        x = (x - 0.5) * 2 + 257  # bfloat16 has 8 bits: odd numbers above 256 lie halfway
    x[:, :: kind.activation_group or inner] = 127
    out = run(product(machine, [form], inner), x)
    assert torch.equal(out.double(), as_met(x, kind.activation_group) @ dequantised(form).T)


@pytest.mark.parametrize("name", [name for name in FORMATS if "channel" not in name and "int" in name])
@pytest.mark.parametrize("scale", [0.0, -0.0, 6e-8, 6.1e-5, 65504.0, -65504.0])
def test_group_scales_of_any_size_agree_with_float64(machine: Machine, name: str, scale: float) -> None:
    kind = FORMATS[name]
    inner = 3 * kind.inner_multiple
    form = kind.draw(33, inner, generator())
    assert isinstance(form, Grouped)
    form.scales[:, 1] = scale
    if form.minima is not None:
        form.minima[:, 2] = scale
    x = draw(4, inner)
    assert_near(run(product(machine, [form], inner), x), as_met(x, 32), dequantised(form))


@pytest.mark.parametrize("name", [name for name in FORMATS if name[:3] in ("int", "q4_", "q5_", "q6_")])
def test_a_weight_takes_the_bits_of_its_codes_and_the_bytes_of_its_numbers(name: str) -> None:
    """Zeros take the two bytes of a float16."""
    form = FORMATS[name].draw(64, 256, generator())
    weight = NativeKernels(1).prepare_linear([form])
    if isinstance(form, PerChannel):
        assert weight.bytes == 64 * 256 + 64 * 4
        return
    assert isinstance(form, Grouped | TwoLevel)
    numbers = {field.name: getattr(form, field.name) for field in dataclasses.fields(form)}
    tensors = [x.half() if name == "zeros" else x for name, x in numbers.items() if isinstance(x, Tensor)]
    count = sum(x.numel() * x.element_size() for x in tensors if x is not form.codes)
    assert weight.bytes == 64 * 256 * form.bits // 8 + count


@pytest.mark.parametrize("name", ["q4_k", "q5_k", "q6_k"])
@pytest.mark.parametrize("scale", [0.0, -0.0, 6e-8, 6.1e-5, 65504.0, -65504.0])
def test_scales_in_two_levels_of_any_size_agree_with_float64(machine: Machine, name: str, scale: float) -> None:
    kind = FORMATS[name]
    form = kind.draw(33, 768, generator())
    assert isinstance(form, TwoLevel)
    form.super_scales[:, 1] = scale
    form.scales[:, ::3] = form.scales.min()
    form.scales[:, 1::3] = form.scales.max()
    if form.super_minima is not None:
        form.super_minima[:, 2] = scale
    x = draw(4, 768)
    assert_near(run(product(machine, [form], 768), x), as_met(x, kind.activation_group), dequantised(form))


def test_every_scale_and_every_code_of_nvfp4_is_exact(machine: Machine) -> None:
    scales = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn)  # 0 and subnormals among them
    codes = (torch.arange(127 * 32).view(127, 32) % 16).to(torch.uint8)
    form = Nvfp4(codes, scales[:, None].repeat(1, 2).contiguous(), 0.5)
    x = torch.eye(32)
    assert torch.equal(run(product(machine, [form], 32), x).double(), dequantised(form).T)


def test_every_scale_and_every_code_of_mxfp4_is_exact_in_the_range_of_float32(machine: Machine) -> None:
    """From 2^-127, which is below the least normal, to 2^127, of which six are beyond the largest."""
    codes = (torch.arange(255 * 32).view(255, 32) % 16).to(torch.uint8)
    form = Mxfp4(codes, torch.arange(255, dtype=torch.uint8).view(255, 1))
    expected = dequantised(form).float()
    assert expected.isinf().any()
    out = run(product(machine, [form], 32), torch.eye(32)).T
    assert torch.equal(out[1:], expected[1:])
    assert ((out[0] == expected[0]) | (out[0] == 0)).all()


def test_a_scale_of_mxfp4_that_is_no_number_makes_sums_that_are_not_finite(machine: Machine) -> None:
    form = FORMATS["mxfp4"].draw(40, 96, generator())
    assert isinstance(form, Mxfp4)
    form.scales[7, 1] = 255
    finite = run(product(machine, [form], 96), draw(9, 96)).isfinite()
    assert not finite[:, 7].any()
    finite[:, 7] = True
    assert finite.all()


def test_every_code_of_every_integer_format_is_exact(machine: Machine) -> None:
    for name, kind in FORMATS.items():
        form = kind.integers(33, 256, generator())
        if isinstance(form, Tensor | Nvfp4 | Mxfp4):
            continue
        bits = 8 if isinstance(form, PerChannel) else form.bits
        form.codes[:] = (torch.arange(256) + torch.arange(33)[:, None]) % 2**bits
        x = torch.eye(256) * 127
        assert torch.equal(run(product(machine, [form], 256), x).double(), x.double() @ dequantised(form).T), name


def test_the_smallest_and_largest_channel_scales_agree_with_float64(machine: Machine) -> None:
    form = PerChannel(torch.arange(64 * 6).view(6, 64).to(torch.uint8), torch.tensor([0, 1e-38, 1e-20, 1, 1e20, 1e33]))
    x = draw(3, 64)
    assert_near(run(product(machine, [form], 64), x), as_met(x, 64), dequantised(form))


@by_format
def test_a_weight_that_other_threads_pack_among_others_is_the_same(name: str, machine: Machine) -> None:
    inner = inner_of(name, 128)
    kernels, x = NativeKernels(1), draw(3, inner)
    forms = [FORMATS[name].draw(features, inner, generator(features)) for features in range(30, 60)]
    with ThreadPoolExecutor(4) as threads:
        weights = [
            kernels.prepare_linear_on(threads, features, lambda form=form: [form])
            for features, form in enumerate(forms, 30)
        ]
    for form, weight in zip(forms, weights, strict=True):
        assert same_bits(run(product_with(machine, weight, inner), x), run(product(machine, [form], inner), x))


# -- refusals ----------------------------------------------------------------------------------------------------------


@by_format
def test_a_weight_without_features_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a weight has features"):
        NativeKernels(1).prepare_linear([FORMATS[name].draw(0, inner_of(name, 64), generator())])


def test_a_weight_of_half_a_group_is_refused() -> None:
    form = FORMATS["nvfp4"].draw(4, 48, generator())
    with pytest.raises(ValueError, match="K is a multiple of 32"):
        NativeKernels(1).prepare_linear([form])


@pytest.mark.parametrize(("bits", "group"), [(4, 48), (4, 256), (8, 64), (5, 64), (6, 32)])
def test_codes_of_other_bits_or_groups_are_refused(bits: int, group: int) -> None:
    form = Grouped(bits, torch.zeros(4, 768, dtype=torch.uint8), torch.ones(4, 768 // group).half())
    with pytest.raises(ValueError, match=f"no format has such codes: {bits} bits by {group}"):
        NativeKernels(1).prepare_linear([form])


def test_what_keeps_another_thread_from_packing_comes_with_the_weight() -> None:
    def encode() -> list[LinearForm]:
        raise MemoryError

    with ThreadPoolExecutor(1) as threads:
        weight = NativeKernels(1).prepare_linear_on(threads, 3, encode)
    with pytest.raises(MemoryError):
        _ = weight.parts


@pytest.mark.parametrize(("inner", "features"), [(96, 33), (64, 34)])
def test_a_weight_that_does_not_fit_its_buffers_is_refused(machine: Machine, inner: int, features: int) -> None:
    (part,) = NativeKernels(1).prepare_linear([torch.zeros(features, inner)]).parts
    program = machine.native.Program(machine.pool, machine.instruction_set)
    x, out = program.buffer(64), program.buffer(33)
    with pytest.raises(ValueError, match="does not fit"):
        program.linear(x, part, 0, out, 0, machine.native.Rows.TOKENS)
