"""What a forward pass becomes before it is lowered: instructions, fused, over buffers that are used again."""

import random
from itertools import pairwise

import pytest
import torch

from dayzero.kernels.native.recorder import (
    IN_PLACE,
    SAMPLE_AT,
    TOKENS,
    Instruction,
    Symbol,
    Tape,
    assign_buffers,
    fuse,
)

ONES = torch.ones(8)


def op_names(tape: Tape) -> list[str]:
    return [at.op for at in fuse(tape.instructions)]


def test_a_sum_and_the_norm_that_reads_it_next_are_one_op_with_two_outputs() -> None:
    tape = Tape()
    x, y = tape.symbol(8, "tokens"), tape.symbol(8, "tokens")
    total = x + y
    normed = tape.rms_norm(total, ONES, 1e-5)
    (fused,) = fuse(tape.instructions)
    assert (fused.op, fused.inputs, fused.outputs) == ("add_rms_norm", (x.index, y.index), (total.index, normed.index))
    assert fused.fixed["weight"] is ONES
    assert fused.fixed["eps"] == 1e-5


def test_a_norm_of_something_else_stays_an_op_of_its_own() -> None:
    tape = Tape()
    x, y = tape.symbol(8, "tokens"), tape.symbol(8, "tokens")
    _ = x + y
    tape.rms_norm(x, ONES, 1e-5)
    assert op_names(tape) == ["add", "rms_norm"]


def test_a_sum_that_is_read_later_is_not_fused_over_the_ops_between() -> None:
    tape = Tape()
    x, y = tape.symbol(8, "tokens"), tape.symbol(8, "tokens")
    total = x + y
    tape.silu_mul(y)
    tape.rms_norm(total, ONES, 1e-5)
    assert op_names(tape) == ["add", "gated", "rms_norm"]


def test_only_the_first_norm_of_a_sum_is_fused() -> None:
    tape = Tape()
    total = tape.symbol(8, "tokens") + tape.symbol(8, "tokens")
    tape.rms_norm(total, ONES, 1e-5)
    tape.rms_norm(total, ONES, 1e-5)
    assert op_names(tape) == ["add_rms_norm", "rms_norm"]


def test_fusing_nothing_changes_nothing() -> None:
    tape = Tape()
    tape.silu_mul(tape.rms_norm(tape.embedding(TOKENS, torch.ones(3, 8)), ONES, 1e-5))
    assert fuse(tape.instructions) == tape.instructions
    assert fuse([]) == []


def test_sampled_rows_are_counted_in_samples_from_then_on() -> None:
    tape = Tape()
    x = tape.symbol(8, "tokens")
    assert tape.silu_mul(tape.rms_norm(x[SAMPLE_AT], ONES, 1e-5)).rows == "samples"


@pytest.mark.parametrize("at", [0, slice(0, 1), None])
def test_no_rows_but_the_sampled_ones_can_be_taken(at: object) -> None:
    with pytest.raises(AssertionError, match="only the sampled rows"):
        Tape().symbol(8, "tokens")[at]


def test_symbols_of_other_rows_or_another_width_are_not_added() -> None:
    tape = Tape()
    x = tape.symbol(8, "tokens")
    for other in (tape.symbol(9, "tokens"), tape.symbol(8, "samples")):
        with pytest.raises(AssertionError):
            x + other


# -- buffers -----------------------------------------------------------------------------------------------------------


def checked(instructions: list[Instruction], widths: list[int], kept: list[int]) -> list[int]:
    """The buffers that are assigned, after a check of them."""
    buffer_of = assign_buffers(instructions, widths, kept)
    check(buffer_of, instructions, widths, kept)
    return buffer_of


def check(buffer_of: list[int], instructions: list[Instruction], widths: list[int], kept: list[int]) -> None:
    """Run the ops on names in place of values: whoever reads a symbol finds it where it was written."""
    width_of: dict[int, int] = {}
    for symbol, buffer in enumerate(buffer_of):
        assert buffer >= 0, f"symbol {symbol} has no buffer"
        assert width_of.setdefault(buffer, widths[symbol]) == widths[symbol]
    written = {symbol for at in instructions for symbol in at.outputs}
    inputs = [symbol for symbol in range(len(widths)) if symbol not in written]
    holds = {buffer_of[symbol]: symbol for symbol in inputs}
    assert len(holds) == len(inputs), "two inputs share a buffer"
    for at in instructions:
        for symbol in at.inputs:
            assert holds[buffer_of[symbol]] == symbol, f"symbol {symbol} was overwritten before {at}"
        targets = [buffer_of[symbol] for symbol in at.outputs]
        assert len(set(targets)) == len(targets)
        in_place = at.op in IN_PLACE
        assert in_place == bool({buffer_of[symbol] for symbol in at.inputs} & set(targets)), at
        holds |= dict(zip(targets, at.outputs, strict=True))
    for symbol in kept:
        assert holds[buffer_of[symbol]] == symbol, f"kept symbol {symbol} was overwritten"


def random_program(choose: random.Random) -> tuple[list[Instruction], list[int], list[int]]:
    """Ops with 0 to 3 inputs and 1 or 2 outputs; what an op wrote in place nobody reads by its old name."""
    widths = [choose.choice([4, 8]) for _ in range(choose.randint(0, 3))]
    instructions: list[Instruction] = []
    readable = list(range(len(widths)))
    for _ in range(choose.randint(1, 30)):
        if readable and choose.random() < 0.2:
            x = choose.choice(readable)
            readable.remove(x)
            widths.append(widths[x])
            at = Instruction("rope_and_write_kv", (x,), (len(widths) - 1,), "tokens")
        else:
            inputs = tuple(choose.choices(readable, k=choose.randint(0, 3))) if readable else ()
            first = len(widths)
            widths += [choose.choice([4, 8]) for _ in range(choose.randint(1, 2))]
            at = Instruction("any", inputs, tuple(range(first, len(widths))), "tokens")
        instructions.append(at)
        readable += at.outputs
    return instructions, widths, choose.sample(readable, choose.randint(0, min(3, len(readable))))


def test_no_buffer_is_used_again_while_its_value_is_still_to_be_read() -> None:
    choose = random.Random(0)
    for _ in range(1000):
        checked(*random_program(choose))


def test_buffers_are_used_again() -> None:
    choose = random.Random(1)
    programs = [random_program(choose) for _ in range(200)]
    num_buffers = [len(set(assign_buffers(*program))) for program in programs]
    num_symbols = [len(program[1]) for program in programs]
    assert sum(num_buffers) < 0.7 * sum(num_symbols)


def test_a_long_chain_of_one_width_needs_two_buffers() -> None:
    tape = Tape()
    x: Symbol = tape.embedding(TOKENS, torch.ones(3, 8))
    for _ in range(20):
        x = tape.rms_norm(x, ONES, 1e-5)
    buffers = checked(tape.instructions, tape.widths, [x.index])
    assert len(set(buffers)) == 2
    assert all(a != b for a, b in pairwise(buffers))


def test_the_number_of_buffers_does_not_grow_with_the_layers() -> None:
    def num_buffers(layers: int) -> int:
        tape = Tape()
        x: Symbol = tape.embedding(TOKENS, torch.ones(3, 8))
        for _ in range(layers):
            x = x + tape.write("linear", (tape.rms_norm(x, ONES, 1e-5),), 8, "tokens")
            gate_up = tape.write("linear", (tape.rms_norm(x, ONES, 1e-5),), 24, "tokens")
            x = x + tape.write("linear", (tape.silu_mul(gate_up),), 8, "tokens")
        return len(set(checked(fuse(tape.instructions), tape.widths, [x.index])))

    assert num_buffers(2) == num_buffers(30) <= 6


def test_the_checker_of_these_tests_sees_a_buffer_that_is_used_too_early() -> None:
    tape = Tape()
    x = tape.symbol(8, "tokens")
    y = tape.rms_norm(x, ONES, 1e-5)
    z = tape.rms_norm(y, ONES, 1e-5) + x
    with pytest.raises(AssertionError, match="was overwritten"):
        check([0, 1, 0, 2], tape.instructions, tape.widths, [z.index])
