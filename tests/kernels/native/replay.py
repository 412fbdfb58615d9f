"""Small programs, recorded as a model would be, fed and read through the buffers of their symbols; and the judge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dayzero.kernels.native.backend import flat_step
from dayzero.kernels.native.program import NativeProgram
from dayzero.kernels.native.recorder import Symbol, Tape

Flat = np.ndarray[Any, np.dtype[np.int32]]

NUM_ROWS = (*range(1, 18), 31, 32, 33, 64, 127, 128, 512)
MOST_ROWS = 512
UNTOUCHED = 12345.5


@dataclass(frozen=True)
class Machine:
    """An instruction set, by the name that a program takes, and a pool of threads."""

    native: Any
    instruction_set: str
    pool: Any

    def program(self, tape: Tape, kept: Sequence[Symbol]) -> NativeProgram:
        return NativeProgram(self.native, self.pool, self.instruction_set, tape, kept)


@dataclass(frozen=True)
class Replay:
    """A program as a function of its inputs."""

    program: NativeProgram
    inputs: tuple[Symbol, ...]
    outputs: tuple[Symbol, ...]

    def __call__(self, step: Flat, *values: Tensor) -> tuple[Tensor, ...]:
        """Outputs of one step; its rows are those of the buffers and no others."""
        self.program.read(step)
        rows = {"tokens": int(step[0]), "samples": int(step[1])}
        most = max(rows.values())
        for symbol in self.outputs:
            self.program.view(symbol, most).fill_(UNTOUCHED)
        for symbol, value in zip(self.inputs, values, strict=True):  # after: one may be written in place
            self.program.view(symbol, rows[symbol.rows]).copy_(value)
        self.program.run()
        for symbol in self.outputs:
            beyond = self.program.view(symbol, most)[rows[symbol.rows] :]
            assert (beyond == UNTOUCHED).all(), "rows that the step does not have were written"
        return tuple(self.program.view(symbol, rows[symbol.rows]).clone() for symbol in self.outputs)


def replay(machine: Machine, tape: Tape, inputs: Sequence[Symbol], outputs: Sequence[Symbol]) -> Replay:
    return Replay(machine.program(tape, [*inputs, *outputs]), tuple(inputs), tuple(outputs))


def rows_step(num_tokens: int, sample_at: Sequence[int] = (), tokens: Sequence[int] | None = None) -> Flat:
    """A step of one request without KV."""
    tokens = [0] * num_tokens if tokens is None else tokens
    starts, firsts = ([0, num_tokens], [0]) if num_tokens else ([0], [])
    return flat_step(tokens, sample_at, starts, firsts, [], 16)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def same_bits(a: Tensor, b: Tensor) -> bool:
    """-0 is not 0; a NaN is itself."""
    return a.shape == b.shape and torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


def assert_rows_are_invariant(run: Callable[..., tuple[Tensor, ...]], *values: Tensor) -> None:
    """A row has the same bits at every number of rows and wherever in the step it stands."""
    together = run(*values)
    assert all(len(out) == MOST_ROWS for out in together)
    for rows in NUM_ROWS:
        first = (rows * 37) % (MOST_ROWS - rows + 1)
        some = run(*(value[first : first + rows] for value in values))
        for out, expected in zip(some, together, strict=True):
            assert same_bits(out, expected[first : first + rows]), rows


def assert_as_accurate(ours: Tensor, reference32: Tensor, judge64: Tensor) -> None:
    """Within four times the error that the obvious float32 computation makes, and an ulp of the largest."""
    assert ours.shape == judge64.shape
    if not judge64.numel():
        return
    own_error = (reference32.double() - judge64).abs().max()
    error = (ours.double() - judge64).abs().max()
    assert error <= 4 * own_error + 2**-23 * judge64.abs().max(), (float(error), float(own_error))
