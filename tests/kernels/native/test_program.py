"""Rows that are fed to a program as they are, the rows in which something is not finite, and poison."""

import pytest
import torch

from dayzero.kernels.native.program import NativeProgram
from dayzero.kernels.native.recorder import Symbol, Tape
from tests.kernels.native.replay import Machine, draw, rows_step, same_bits

WIDTH = 37


def doubling(machine: Machine, *, poisoned: bool = False) -> tuple[NativeProgram, Symbol, Symbol]:
    tape = Tape()
    x = tape.symbol(WIDTH, "tokens")
    out = x + x
    kept = [x, out]
    return NativeProgram(machine.native, machine.pool, machine.instruction_set, tape, kept, poisoned=poisoned), x, out


@pytest.mark.parametrize("rows", [0, 1, 2, 33, 128])
def test_fed_rows_are_computed_as_rows_of_a_step_are(machine: Machine, rows: int) -> None:
    program, x, out = doubling(machine)
    values = draw(rows + 2, WIDTH)
    program.feed(x, values[1:].data_ptr(), rows)
    program.run()
    fed = program.view(out, rows).clone()
    program.read(rows_step(rows))
    program.view(x, rows).copy_(values[1 : rows + 1])
    program.run()
    assert same_bits(fed, program.view(out, rows))
    assert torch.equal(fed, 2 * values[1 : rows + 1])


def test_fewer_rows_than_none_are_refused(machine: Machine) -> None:
    program, x, _ = doubling(machine)
    with pytest.raises(ValueError, match="rows"):
        program.feed(x, draw(1, WIDTH).data_ptr(), -1)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_rows_that_are_not_finite_are_found(machine: Machine, bad: float) -> None:
    program, x, _ = doubling(machine)
    values = draw(9, WIDTH)
    values[0] = 3e38  # a sum of them is not finite, and they are
    values[1] = -0.0
    program.feed(x, values.data_ptr(), 9)
    assert program.rows_not_finite(x) == []
    values[2, 0], values[5, WIDTH - 1], values[8, 20] = bad, bad, bad
    program.feed(x, values.data_ptr(), 9)
    assert program.rows_not_finite(x) == [2, 5, 8]
    program.feed(x, values.data_ptr(), 5)
    assert program.rows_not_finite(x) == [2]


@pytest.mark.parametrize("poisoned", [False, True])
def test_what_a_step_did_not_write_is_what_an_earlier_one_left_unless_it_is_poisoned(
    machine: Machine, poisoned: bool
) -> None:
    program, x, out = doubling(machine, poisoned=poisoned)
    values = draw(9, WIDTH)
    program.feed(x, values.data_ptr(), 9)
    program.run()
    assert torch.equal(program.view(out, 9), 2 * values)
    program.read(rows_step(9))  # and nobody writes x
    program.run()
    left = program.view(out, 9)
    assert bool(left.isnan().all()) == poisoned
    assert torch.equal(left, 2 * values) != poisoned
