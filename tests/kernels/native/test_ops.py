"""Every op on rows against its reference, with float64 as the judge; row by row for equal bits; hostile values."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from dayzero.kernels import reference
from dayzero.kernels.native.recorder import SAMPLE_AT, TOKENS, Symbol, Tape
from tests.kernels.native.replay import (
    MOST_ROWS,
    NUM_ROWS,
    Machine,
    Replay,
    assert_as_accurate,
    assert_rows_are_invariant,
    draw,
    replay,
    rows_step,
    same_bits,
)

EPS = 1e-5
WIDTHS = [1, 7, 16, 31, 33, 100, 576]


@dataclass(frozen=True)
class RowOp:
    """An op whose rows do not meet: how it is recorded, and what it should be."""

    num_inputs: int
    input_widths: int  # in widths of an output
    record: Callable[[Tape, list[Symbol], Tensor], list[Symbol]]
    expected: Callable[[list[Tensor], Tensor], list[Tensor]]


def _record_add_rms_norm(tape: Tape, x: list[Symbol], weight: Tensor) -> list[Symbol]:
    total = x[0] + x[1]
    return [total, tape.rms_norm(total, weight, EPS)]


ROW_OPS = {
    "rms_norm": RowOp(1, 1, lambda tape, x, w: [tape.rms_norm(x[0], w, EPS)], lambda x, w: [_norm(x[0], w)]),
    "add": RowOp(2, 1, lambda _, x, __: [x[0] + x[1]], lambda x, _: [x[0] + x[1]]),
    "add_rms_norm": RowOp(2, 1, _record_add_rms_norm, lambda x, w: [x[0] + x[1], _norm(x[0] + x[1], w)]),
    "silu_mul": RowOp(1, 2, lambda tape, x, _: [tape.silu_mul(x[0])], lambda x, _: [reference.silu_mul(x[0])]),
    "gelu_mul": RowOp(1, 2, lambda tape, x, _: [tape.gelu_mul(x[0])], lambda x, _: [reference.gelu_mul(x[0])]),
}


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    """The reference's formula in the dtype of x: its own computes in float32 whatever it is given."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight.to(x.dtype)


@dataclass(frozen=True)
class Recorded:
    op: RowOp
    width: int
    weight: Tensor
    run: Replay

    def __call__(self, *values: Tensor) -> tuple[Tensor, ...]:
        return self.run(rows_step(len(values[0])), *values)

    def inputs(self, rows: int) -> list[Tensor]:
        return [draw(rows, self.width * self.op.input_widths, seed=i) for i in range(self.op.num_inputs)]


def recorded(machine: Machine, name: str, width: int) -> Recorded:
    op, tape, weight = ROW_OPS[name], Tape(), draw(width, seed=9)
    inputs = [tape.symbol(width * op.input_widths, "tokens") for _ in range(op.num_inputs)]
    return Recorded(op, width, weight, replay(machine, tape, inputs, op.record(tape, inputs, weight)))


by_op = pytest.mark.parametrize("name", ROW_OPS)


@by_op
@pytest.mark.parametrize("width", WIDTHS)
def test_an_op_agrees_with_its_reference(machine: Machine, name: str, width: int) -> None:
    op = recorded(machine, name, width)
    for rows in (0, *NUM_ROWS):
        values = op.inputs(rows)
        expected32 = op.op.expected(values, op.weight)
        expected64 = op.op.expected([x.double() for x in values], op.weight)
        for ours, reference32, judge in zip(op(*values), expected32, expected64, strict=True):
            assert_as_accurate(ours, reference32, judge)


@by_op
@pytest.mark.parametrize("width", [33, 576])
def test_a_row_of_an_op_has_the_same_bits_in_any_company(machine: Machine, name: str, width: int) -> None:
    op = recorded(machine, name, width)
    assert_rows_are_invariant(op, *op.inputs(MOST_ROWS))


@by_op
@pytest.mark.parametrize("poison", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("at", [0, 32, 40])  # in a whole vector and in a tail
def test_a_value_that_is_not_finite_stays_in_its_row(machine: Machine, name: str, poison: float, at: int) -> None:
    op = recorded(machine, name, 41)
    values = op.inputs(5)
    clean = op(*values)
    values[0][2, at] = poison
    for out, before in zip(op(*values), clean, strict=True):
        assert not out[2].isfinite().all()
        others = [0, 1, 3, 4]
        assert same_bits(out[others], before[others])


@by_op
def test_zeros_keep_their_sign_as_in_the_reference(machine: Machine, name: str) -> None:
    op = recorded(machine, name, 37)
    values = [torch.full((2, 37 * op.op.input_widths), -0.0) for _ in range(op.op.num_inputs)]
    for out, expected in zip(op(*values), op.op.expected(values, op.weight), strict=True):
        assert same_bits(out, expected)


@pytest.mark.parametrize("name", ["silu_mul", "gelu_mul"])
def test_a_gate_of_any_size_gives_what_float64_gives(machine: Machine, name: str) -> None:
    magnitudes = torch.tensor([1e-42, 1e-30, 1e-3, 0.5, 9.0, 20.0, 80.0, 88.0, 100.0, 1e5, 1e30, 3.4e38])
    gate = torch.cat([magnitudes, -magnitudes])
    op = recorded(machine, name, len(gate))
    (out,) = op(torch.cat([gate, torch.ones_like(gate)])[None])
    judge = ROW_OPS[name].expected([torch.cat([gate, torch.ones_like(gate)])[None].double()], op.weight)[0]
    # Where the activation is nearly 0, float32 knows it to an ulp of the 1 that it is subtracted from.
    assert ((out.double() - judge).abs() <= 4e-7 * judge.abs() + 2**-23 * gate.abs().clamp(max=20)).all()


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6, 1e15, 1e25])
def test_a_norm_of_tiny_and_huge_rows_is_that_of_the_reference(machine: Machine, size: float) -> None:
    op = recorded(machine, "rms_norm", 100)
    x = draw(3, 100) * size
    torch.testing.assert_close(op(x)[0], reference.rms_norm(x, op.weight, EPS), rtol=1e-6, atol=0)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scale", [1.0, 24.0])
def test_embedding_looks_rows_up(machine: Machine, width: int, scale: float) -> None:
    table = draw(50, width).bfloat16()
    tape = Tape()
    run = replay(machine, tape, [], [tape.embedding(TOKENS, table, scale)])
    for rows in (0, *NUM_ROWS):
        tokens = [(7 * row + rows) % 50 for row in range(rows)]
        (out,) = run(rows_step(rows, tokens=tokens))
        assert same_bits(out, table[tokens].float() * scale)


@pytest.mark.parametrize("width", [1, 33, 576])
def test_sampled_rows_are_copied_in_the_order_of_the_step(machine: Machine, width: int) -> None:
    tape = Tape()
    x = tape.symbol(width, "tokens")
    run = replay(machine, tape, [x], [x[SAMPLE_AT]])
    for rows in (1, 2, 17, 33, 128):
        values = draw(rows, width)
        for sample_at in ([], [rows - 1], list(range(rows)), list(range(rows))[::-3]):
            (out,) = run(rows_step(rows, sample_at), values)
            assert same_bits(out, values[sample_at])


def test_ops_after_sampling_compute_the_sampled_rows_only(machine: Machine) -> None:
    tape, weight = Tape(), draw(40, seed=9)
    x = tape.symbol(40, "tokens")
    run = replay(machine, tape, [x], [tape.rms_norm(x[SAMPLE_AT], weight, EPS)])
    alone = recorded(machine, "rms_norm", 40)
    values = draw(20, 40)
    for sample_at in ([], [3], [19, 0, 7]):
        assert same_bits(run(rows_step(20, sample_at), values)[0], alone(values[sample_at])[0])
