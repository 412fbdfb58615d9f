"""A recorded forward pass as a native program, and what feeds it.

Holds every tensor whose address the program knows.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dayzero.kernels.kv_format import head_dim_of
from dayzero.kernels.native.recorder import Instruction, Plan, Symbol, Tape, assign_buffers, fuse


class NativeProgram:
    """Ops, their buffers, and the symbols that can be read and written from outside."""

    def __init__(
        self,
        native: Any,
        pool: Any,
        instruction_set: str,
        tape: Tape,
        kept: Sequence[Symbol],
        *,
        poisoned: bool = False,
    ) -> None:
        """poisoned: what a step has not written itself is NaN, so that no result survives reading it; for tests."""
        instructions = fuse(tape.instructions)
        buffer_of = assign_buffers(instructions, tape.widths, [symbol.index for symbol in kept])
        self._native = native
        self._program = native.Program(pool, instruction_set, poisoned)
        self._widths = tape.widths
        self._held: list[Tensor] = []
        numbers: dict[int, int] = {}
        for symbol, buffer in enumerate(buffer_of):
            if buffer not in numbers:
                numbers[buffer] = self._program.buffer(tape.widths[symbol])
        self._number_of = [numbers[buffer] for buffer in buffer_of]
        self._names: list[str] = []
        for instruction in instructions:
            self._emit(instruction)
            self._names += [instruction.op] * (self.num_ops - len(self._names))

    @property
    def num_ops(self) -> int:
        """After fusion."""
        return int(self._program.num_ops)

    def read(self, step: "np.ndarray[Any, np.dtype[np.int32]]") -> None:
        """Take a step in its flat form (native/step.hpp)."""
        self._step = step  # the program reads it at every run
        self._program.read(step.ctypes.data, step.size)

    def feed(self, symbol: Symbol, address: int, rows: int) -> None:
        """Take a step of no tokens but of rows that are computed already, float32 [rows, width of the symbol]."""
        self._program.feed(self._number_of[symbol.index], address, rows)

    def rows_not_finite(self, symbol: Symbol) -> list[int]:
        """The step's rows of a symbol that hold a NaN or an infinity."""
        found: list[int] = self._program.rows_not_finite(self._number_of[symbol.index])
        return found

    def run(self) -> None:
        """Compute the step that was read."""
        self._program.run()

    def run_op_by_op(self) -> None:
        """The same, each op called from here: what recording saves is the difference."""
        for index in range(self._program.num_ops):
            self._program.run_op(index)

    def run_timed(self) -> list[tuple[str, int]]:
        """The same; name and nanoseconds of each op, the wait for its last thread included."""
        return list(zip(self._names, self._program.run_timed(), strict=True))

    def view(self, symbol: Symbol, rows: int) -> Tensor:
        """The first rows of a symbol that was kept, valid until the next step is read; no copy."""
        return rows_at(self.address(symbol), rows, symbol.width)

    def address(self, symbol: Symbol) -> int:
        """Of its first row, valid until the next step is read."""
        return int(self._program.address(self._number_of[symbol.index]))

    # -- lowering -----------------------------------------------------------------------------------------------------

    def _emit(self, at: Instruction) -> None:
        emit: Callable[..., None] = getattr(self, f"_emit_{at.op}")
        emit([self._number_of[i] for i in at.inputs], [self._number_of[i] for i in at.outputs], at)

    def _address(self, tensor: Tensor | None, dtype: torch.dtype) -> int:
        """Of a tensor in this dtype, which is held from now on; 0 for None."""
        if tensor is None:
            return 0
        held = tensor.to(dtype).contiguous()
        self._held.append(held)
        return held.data_ptr()

    def _pool(self, kv: Tensor, group: int) -> Any:
        """A layer's KV, which must be the very memory, and the cache group whose tables name its blocks."""
        formats = {torch.bfloat16: self._native.KVFormat.BF16, torch.int8: self._native.KVFormat.INT8}
        assert kv.is_contiguous()
        num_blocks, block_size, _, num_kv_heads, _ = kv.shape
        address = self._address(kv, kv.dtype)
        return self._native.KVPool(
            address, num_blocks, formats[kv.dtype], block_size, num_kv_heads, head_dim_of(kv), group
        )

    def _biases(self, biases_BGS: Tensor | None, kv: Tensor) -> int:
        """The address of a layer's biases, which must be the very memory too; 0 for none."""
        if biases_BGS is not None:
            assert biases_BGS.dtype is torch.float32, biases_BGS.dtype
            assert biases_BGS.shape == (kv.shape[0], kv.shape[3], kv.shape[1]), biases_BGS.shape
            assert biases_BGS.is_contiguous()
        return self._address(biases_BGS, torch.float32)

    def _rows(self, at: Instruction) -> Any:
        return self._native.Rows.TOKENS if at.rows == "tokens" else self._native.Rows.SAMPLES

    def _emit_embedding(self, _: list[int], out: list[int], at: Instruction) -> None:
        table = at.fixed["table"]
        address = self._address(table, torch.bfloat16)
        self._program.embedding(out[0], address, table.shape[0], at.fixed["scale"])

    def _emit_linear(self, x: list[int], out: list[int], at: Instruction) -> None:
        bias = self._address(at.fixed["bias"], torch.float32)
        first = 0
        for part in at.fixed["weight"].parts:
            self._program.linear(x[0], part, bias, out[0], first, self._rows(at))
            first += part.features

    def _emit_add(self, x: list[int], out: list[int], at: Instruction) -> None:
        assert at.rows == "tokens", at.rows
        self._program.add(x[0], x[1], out[0])

    def _emit_add_rms_norm(self, x: list[int], out: list[int], at: Instruction) -> None:
        weight = self._address(at.fixed["weight"], torch.float32)
        self._program.add_rms_norm(x[0], x[1], weight, at.fixed["eps"], out[0], out[1], self._rows(at))

    def _emit_rms_norm(self, x: list[int], out: list[int], at: Instruction) -> None:
        weight = self._address(at.fixed["weight"], torch.float32)
        self._program.rms_norm(x[0], weight, at.fixed["eps"], out[0], self._rows(at))

    def _emit_take_samples(self, x: list[int], out: list[int], _: Instruction) -> None:
        self._program.take_samples(x[0], out[0])

    def _emit_gated(self, x: list[int], out: list[int], at: Instruction) -> None:
        assert at.rows == "tokens", at.rows
        self._program.gated(x[0], out[0], at.fixed["gelu"])

    def _emit_rope_and_write_kv(self, x: list[int], out: list[int], at: Instruction) -> None:
        assert x == out, "Q stays where it is"
        cos, signed_sin = at.fixed["rotary"]
        q_norm, k_norm, eps = at.fixed["norms"] or (None, None, 0.0)
        kv: Tensor = at.fixed["kv"]
        num_kv_heads, head_dim = kv.shape[3], head_dim_of(kv)
        num_heads = self._widths[at.inputs[0]] // head_dim - 2 * num_kv_heads
        self._program.rope_and_write_kv(
            x[0],
            self._address(q_norm, torch.float32),
            self._address(k_norm, torch.float32),
            eps,
            self._address(cos, torch.float32),
            self._address(signed_sin, torch.float32),
            cos.shape[0],
            num_heads,
            self._pool(kv, at.fixed["group"]),
        )

    def _emit_attention(self, x: list[int], out: list[int], at: Instruction) -> None:
        kv: Tensor = at.fixed["kv"]
        head_dim = head_dim_of(kv)
        plan: Plan = at.fixed["plan"]
        self._program.attention(
            x[0],
            out[0],
            1 / math.sqrt(head_dim) if at.fixed["scale"] is None else at.fixed["scale"],
            plan.window or 0,
            self._widths[at.outputs[0]] // head_dim,
            self._pool(kv, plan.group),
            self._biases(at.fixed["biases"], kv),
        )


def rows_at(address: int, rows: int, width: int) -> Tensor:
    """Float32 [rows, width] of native memory; no copy."""
    if rows == 0:
        return torch.empty(0, width)
    memory = (ctypes.c_float * (rows * width)).from_address(address)
    return torch.frombuffer(memory, dtype=torch.float32).view(rows, width)
