"""Products on tiles: over the model of the instructions everywhere, and over the instructions where they are."""

import pytest
import torch
from torch import Tensor

from dayzero.kernels.native.backend import NativeKernels
from dayzero.kernels.native.extension import INSTRUCTION_SETS, best_instruction_set, lacking, module
from dayzero.kernels.native.recorder import Tape
from dayzero.kernels.weights import LinearForm, Nvfp4
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

by_format = pytest.mark.parametrize("name", FORMATS)
by_integer_format = pytest.mark.parametrize("name", [name for name, kind in FORMATS.items() if kind.activation_group])


def machine_of(instruction_set: str, num_threads: int = 1) -> Machine:
    native = module()
    if native is None:
        pytest.skip("the native kernels are not built")
    missing = native.missing(instruction_set)
    if missing:
        pytest.skip(f"native/{instruction_set} needs {missing}")
    return Machine(native, instruction_set, native.ThreadPool(num_threads, 50))


@pytest.fixture(scope="module", params=["amx-model", "amx"])
def instruction_set(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def machine(instruction_set: str) -> Machine:
    return machine_of(instruction_set)


def product(machine: Machine, form: LinearForm, bias: Tensor | None = None) -> Replay:
    weight = NativeKernels(1).prepare_linear([form])
    tape = Tape()
    x = tape.symbol(weight.parts[0].inner, "tokens")
    return replay(machine, tape, [x], [tape.linear(x, weight, bias)])


def run(program: Replay, x: Tensor) -> Tensor:
    return program(rows_step(len(x)), x)[0]


def drawn(name: str, features: int, inner: int) -> LinearForm:
    return FORMATS[name].draw(features, inner, torch.Generator().manual_seed(0))


def assert_near(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Off by no more than float32 sums of K products, whose roundings add up like a random walk; subnormals are 0."""
    judge, size = x @ weight.T + bias.double(), x.abs() @ weight.abs().T + bias.double().abs()
    least = 2**-126 * (2 * weight.abs().sum(1) + x.shape[1])
    assert ((out.double() - judge).abs() <= 4 * (x.shape[1] + 4) ** 0.5 * 2**-24 * size + least).all()


@by_format
@pytest.mark.parametrize(("features", "inner"), [(1, 32), (31, 96), (33, 544), (100, 1056)])
def test_products_agree_with_float64(machine: Machine, name: str, features: int, inner: int) -> None:
    """In whole chunks along K and in parts of one: 16 steps of bfloat16, 4 groups of integers."""
    inner = inner_of(name, inner)
    form, bias = drawn(name, features, inner), draw(features)
    program, weight = product(machine, form, bias), dequantised(form)
    for rows in (0, 1, 5, 16, 17, 33, 129):
        x = draw(rows, inner, seed=rows)
        assert_near(run(program, x), as_met(x, FORMATS[name].activation_group), weight, bias)


@pytest.mark.parametrize("name", [name for name, kind in FORMATS.items() if kind.inner_multiple == 1])
@pytest.mark.parametrize("inner", [1, 31, 65])
def test_k_need_not_be_a_whole_step(machine: Machine, name: str, inner: int) -> None:
    form, x, bias = drawn(name, 9, inner), draw(40, inner), draw(9)
    met = as_met(x, FORMATS[name].activation_group)
    assert_near(run(product(machine, form, bias), x), met, dequantised(form), bias)


@by_format
def test_products_of_integers_are_exact(machine: Machine, name: str) -> None:
    kind, inner = FORMATS[name], inner_of(name, 672)
    form = kind.integers(45, inner, torch.Generator().manual_seed(0))
    x = torch.randint(-8, 9, (40, inner), generator=torch.Generator().manual_seed(1)).float()
    if kind.activation_group:  # so that every group's scale is 1
        x[:, :: kind.activation_group] = 127
    assert torch.equal(run(product(machine, form), x).double(), x.double() @ dequantised(form).T)


@by_format
@pytest.mark.parametrize("inner", [96, 576])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_row_of_a_product_has_the_same_bits_in_any_company(
    instruction_set: str, name: str, inner: int, num_threads: int
) -> None:
    inner = inner_of(name, inner)
    form, bias, x = drawn(name, 100, inner), draw(100), draw(MOST_ROWS, inner)
    program = product(machine_of(instruction_set, num_threads), form, bias)
    assert_rows_are_invariant(lambda x: (run(program, x),), x)
    alone = product(machine_of(instruction_set), form, bias)
    assert same_bits(run(program, x), run(alone, x))


@by_integer_format
def test_integers_have_the_bits_that_vectors_give_them(machine: Machine, name: str) -> None:
    inner = inner_of(name, 448)
    form, x, bias = drawn(name, 70, inner), draw(MOST_ROWS, inner), draw(70)
    tiles, vectors = product(machine, form, bias), product(machine_of("avx512"), form, bias)
    for rows in NUM_ROWS:
        assert same_bits(run(tiles, x[:rows]), run(vectors, x[:rows])), rows


@pytest.mark.parametrize("name", ["bf16", "nvfp4"])
def test_the_instructions_have_the_bits_of_their_model(name: str) -> None:
    form, x = drawn(name, 70, 1056), draw(MOST_ROWS, 1056)
    hardware, model = product(machine_of("amx"), form), product(machine_of("amx-model"), form)
    for rows in NUM_ROWS:
        assert same_bits(run(hardware, x[:rows]), run(model, x[:rows])), rows


def test_every_scale_and_every_code_of_nvfp4_is_exact(machine: Machine) -> None:
    scales = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn)  # 0 and subnormals among them
    codes = (torch.arange(127 * 32).view(127, 32) % 16).to(torch.uint8)
    form = Nvfp4(codes, scales[:, None].repeat(1, 2).contiguous(), 0.5)
    assert torch.equal(run(product(machine, form), torch.eye(32)).double(), dequantised(form).T)


@by_format
@pytest.mark.parametrize("poison", [float("inf"), float("nan")])
@pytest.mark.parametrize("rows", [16, 33])
def test_an_activation_that_is_not_finite_stays_in_its_row(
    machine: Machine, name: str, poison: float, rows: int
) -> None:
    inner = inner_of(name, 96)
    program, x = product(machine, drawn(name, 33, inner)), draw(rows, inner)
    clean = run(program, x)
    x[9, 70] = poison
    out = run(program, x)
    others = [row for row in range(rows) if row != 9]
    assert not out[9].isfinite().any()
    assert same_bits(out[others], clean[others])


@by_format
@pytest.mark.parametrize("size", [0.0, -0.0, 1e-38, 9e-31, 1e-10, 1e10, 1e30])
def test_activations_of_any_size_agree_with_float64(machine: Machine, name: str, size: float) -> None:
    inner = inner_of(name, 96)
    form, x = drawn(name, 33, inner), draw(18, inner) * size
    x[1, :64] = 0  # a group of zeros beside others
    met = as_met(x, FORMATS[name].activation_group)
    assert_near(run(product(machine, form), x), met, dequantised(form), torch.zeros(33))


# -- the choice --------------------------------------------------------------------------------------------------------


def test_the_model_of_the_instructions_is_never_chosen_by_itself() -> None:
    assert "amx-model" not in INSTRUCTION_SETS
    assert best_instruction_set()[0] != "amx-model"


def test_amx_is_refused_by_name_where_something_is_lacking() -> None:
    native, why_not = module(), lacking().get("amx")
    if native is None or not why_not:
        pytest.skip("native kernels, and a processor without AMX, are needed")
    assert best_instruction_set()[0] != "amx"
    with pytest.raises(ValueError, match=f"instruction set amx needs {why_not}"):
        native.Program(native.ThreadPool(1, 0), "amx")
