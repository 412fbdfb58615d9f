"""A forward pass as a list of ops, by running it once on symbols.

A family's `forward` is called with symbols in place of tensors and with kernels that write down what they are asked
for. Nothing is computed, so nothing in a forward pass may depend on values: what varies from step to step is the number
of rows, and what `Step` holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from dayzero.kernels.kv_format import head_dim_of

Rows = Literal["tokens", "samples"]  # T or N of a step


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """Float32 [rows, width] that an op will write."""

    tape: "Tape"
    index: int
    width: int
    rows: Rows

    def __add__(self, other: "Symbol") -> "Symbol":
        assert (other.width, other.rows) == (self.width, self.rows), (self, other)
        return self.tape.write("add", (self, other), self.width, self.rows)

    def __getitem__(self, rows: object) -> "Symbol":
        assert rows is SAMPLE_AT, "only the sampled rows can be taken"
        return self.tape.write("take_samples", (self,), self.width, "samples")

    def flatten(self, start: int) -> "Symbol":
        """Itself: heads lie side by side already."""
        assert start == 1, start
        return self


SAMPLE_AT = object()
TOKENS = object()
POSITIONS = object()


@dataclass(frozen=True, slots=True)
class GroupOf:
    """The slots of a cache group."""

    index: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A cache group's plan, as far as it is known before a step."""

    group: int
    window: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One op. `inputs` and `outputs` are indices of symbols; the rest is fixed."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    rows: Rows
    fixed: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Tape:
    """What has been asked for so far."""

    instructions: list[Instruction] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)

    def symbol(self, width: int, rows: Rows) -> Symbol:
        self.widths.append(width)
        return Symbol(self, len(self.widths) - 1, width, rows)

    def write(self, op: str, inputs: Sequence[Symbol], width: int, rows: Rows, **fixed: Any) -> Symbol:
        out = self.symbol(width, rows)
        self.instructions.append(Instruction(op, tuple(x.index for x in inputs), (out.index,), rows, fixed))
        return out

    # The ops of a model, by the names of `Kernels`.

    def linear(self, x: Symbol, weight: Any, bias: Tensor | None = None) -> Symbol:
        return self.write("linear", (x,), weight.features, x.rows, weight=weight, bias=bias)

    def embedding(self, tokens: object, table_VE: Tensor, scale: float = 1.0) -> Symbol:
        assert tokens is TOKENS
        return self.write("embedding", (), table_VE.shape[1], "tokens", table=table_VE, scale=scale)

    def rms_norm(self, x: Symbol, weight: Tensor, eps: float) -> Symbol:
        return self.write("rms_norm", (x,), x.width, x.rows, weight=weight, eps=eps)

    def rotary_at(self, cos: Tensor, signed_sin: Tensor, positions: object) -> tuple[Tensor, Tensor]:
        """The whole tables: the op that rotates looks its rows up."""
        assert positions is POSITIONS
        return cos, signed_sin

    def rope_and_write_kv(
        self,
        qkv: Symbol,
        norms: tuple[Tensor, Tensor, float] | None,
        rotary: tuple[Tensor, Tensor],
        kv_BS2GX: Tensor,
        slots: GroupOf,
    ) -> Symbol:
        return self.write(
            "rope_and_write_kv", (qkv,), qkv.width, "tokens", norms=norms, rotary=rotary, kv=kv_BS2GX, group=slots.index
        )

    def paged_attention(
        self, q: Symbol, kv_BS2GX: Tensor, plan: Plan, scale: float | None = None, biases_BGS: Tensor | None = None
    ) -> Symbol:
        """q keeps the width of the projection: K and V ride along, stored already."""
        width = q.width - 2 * kv_BS2GX.shape[3] * head_dim_of(kv_BS2GX)
        return self.write("attention", (q,), width, "tokens", kv=kv_BS2GX, plan=plan, scale=scale, biases=biases_BGS)

    def silu_mul(self, gate_up: Symbol) -> Symbol:
        return self.write("gated", (gate_up,), gate_up.width // 2, gate_up.rows, gelu=False)

    def gelu_mul(self, gate_up: Symbol) -> Symbol:
        return self.write("gated", (gate_up,), gate_up.width // 2, gate_up.rows, gelu=True)


def fuse(instructions: Sequence[Instruction]) -> list[Instruction]:
    """A sum that a norm reads next becomes one op with two outputs: one pass over the row instead of two."""
    fused: list[Instruction] = []
    for at in instructions:
        before = fused[-1] if fused else None
        if before is not None and at.op == "rms_norm" and before.op == "add" and at.inputs == before.outputs:
            outputs = (*before.outputs, *at.outputs)
            fused[-1] = Instruction("add_rms_norm", before.inputs, outputs, at.rows, at.fixed)
        else:
            fused.append(at)
    return fused


IN_PLACE = frozenset({"rope_and_write_kv"})  # writes its input's memory: its output is the same buffer


def assign_buffers(instructions: Sequence[Instruction], widths: Sequence[int], kept: Sequence[int]) -> list[int]:
    """The buffer of each symbol: one that nobody reads any more is used again by the next symbol of its width.

    `kept` are the symbols that are read after the last op. A symbol that is never written (an input) has a buffer too.
    """
    last_read = {symbol: number for number, at in enumerate(instructions) for symbol in at.inputs}
    last_read |= dict.fromkeys(kept, len(instructions))
    buffer_of = [-1] * len(widths)
    free: dict[int, list[int]] = {}
    count = 0
    written = {symbol for at in instructions for symbol in at.outputs}
    for symbol in range(len(widths)):
        if symbol not in written:
            buffer_of[symbol], count = count, count + 1
    for number, at in enumerate(instructions):
        if at.op in IN_PLACE:
            buffer_of[at.outputs[0]] = buffer_of[at.inputs[0]]
            continue
        for symbol in at.outputs:
            spare = free.get(widths[symbol])
            if spare:
                buffer_of[symbol] = spare.pop()
            else:
                buffer_of[symbol], count = count, count + 1
        for symbol in {*at.inputs, *at.outputs}:
            if last_read.get(symbol, -1) <= number:
                free.setdefault(widths[symbol], []).append(buffer_of[symbol])
    return buffer_of
