"""Every op of a step, by shape, format and rows: a native program of that op alone, and torch's kernel for the same.

linear     the four products of a layer and the head, in all formats; torch: bfloat16, packed for oneDNN
attention  decode: one row of each request; prefill: 256 rows of one request behind others; torch: SDPA over contiguous
           K and V, so without the gather that paging takes
others     norms, rotation with the KV write, gate, embedding; torch: the kernels that serve where native ones cannot

Rows of a weight that most steps find in memory (32 rows and fewer), KV that decode reads, and embeddings are cold;
activations and what a prefill computes with are warm.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from random_llama import BLOCK_SIZE, FORMATS, SHAPES, VOCABULARY, Machine, draw, draw_form, prepare
from roofline import Work
from torch import Tensor

from dayzero.kernels import onednn, reference
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.native.backend import flat_step
from dayzero.kernels.native.program import NativeProgram
from dayzero.kernels.native.recorder import TOKENS, GroupOf, Plan, Symbol, Tape
from dayzero.models.layers import rope_frequencies, rotary
from dayzero.models.llama import LlamaShape

COLD_ROWS = 32  # a step of at most so many rows finds no weight in a cache
LINEAR_ROWS = (1, 4, 8, 16, 32, 128, 512)
HEAD_ROWS = (1, 4, 8, 16, 32)  # a head computes the rows that sample
ELEMENTWISE_ROWS = (1, 32, 512)
PREFILL_ROWS, PREFILL_BEHIND = 256, (0, 768)  # of one request, and tokens before them
DECODE = tuple((context, requests) for context in (256, 1024, 4096) for requests in (1, 8, 32))
MOST_CONTEXT = 8192

Settings = Mapping[str, str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One op and torch's kernel for it. `x`, its activations, is warm however cold the rest is.

    torch_small  the same kernel on so little that it only finds its own code again, where the caches were emptied
    """

    settings: Settings
    work: Work
    cold: bool
    program: NativeProgram
    step: Any
    x: Symbol
    torch: Callable[[], object]
    torch_small: Callable[[], object] | None = None

    def fed(self) -> Tensor:
        """The input, filled; the program is ready to run from then on, until another case feeds it."""
        self.program.read(self.step)
        view = self.program.view(self.x, int(self.step[0]))
        return view.copy_(draw(*view.shape))


Wanted = Callable[[Settings], bool]


def cases(machine: Machine, wanted: Wanted) -> Iterator[Case]:
    """Those that are wanted, each made when it is asked for."""
    for model, shape in SHAPES.items():
        yield from _linears(machine, model, shape, wanted)
        yield from _attentions(machine, model, shape.heads, wanted)
        yield from _elementwise(machine, model, shape, wanted)


def weights(shape: LlamaShape) -> dict[str, tuple[int, int]]:
    """[N, K] of each product."""
    E, F_, heads = shape.hidden_size, shape.intermediate_size, shape.heads
    H, G, D = heads.num_heads, heads.num_kv_heads, heads.head_dim
    return {
        "qkv": ((H + 2 * G) * D, E),
        "out": (E, H * D),
        "gate_up": (2 * F_, E),
        "down": (E, F_),
        "head": (VOCABULARY, E),
    }


# -- products ---------------------------------------------------------------------------------------------------------


def _linears(machine: Machine, model: str, shape: LlamaShape, wanted: Wanted) -> Iterator[Case]:
    for weight, (features, inner) in weights(shape).items():
        packed = None
        for format_name in FORMATS:
            about: Settings = {"op": "linear", "model": model, "weight": weight, "format": format_name}
            rows = [
                {**about, "features": features, "inner": inner, "rows": rows}
                for rows in (HEAD_ROWS if weight == "head" else LINEAR_ROWS)
            ]
            rows = [settings for settings in rows if wanted(settings)]
            if rows:
                packed = packed or _packed_by_torch(draw(features, inner) / inner**0.5)
                yield from _linear(machine, rows, packed)


def _linear(machine: Machine, rows: Sequence[Settings], by_torch: Callable[[Tensor], Tensor]) -> Iterator[Case]:
    """The same weight at several numbers of rows."""
    format_name, features, inner = str(rows[0]["format"]), int(rows[0]["features"]), int(rows[0]["inner"])
    weight = prepare(draw_form(format_name, features, inner))
    tape = Tape()
    x = tape.symbol(inner, "tokens")
    program = machine.program(tape, [x, tape.linear(x, weight)])
    arithmetic = "bf16" if format_name in ("bf16", "nvfp4") else "int8"
    for settings in rows:
        count = int(settings["rows"])
        yield Case(
            settings=settings,
            work=Work(bytes=weight.bytes, ops={arithmetic: 2 * count * features * inner}),
            cold=count <= COLD_ROWS,
            program=program,
            step=_rows_step(count),
            x=x,
            torch=_applied(by_torch, draw(count, inner)),
            torch_small=_applied(_packed_by_torch(draw(64, 64)), draw(1, 64)),
        )


def _packed_by_torch(weight_NK: Tensor) -> Callable[[Tensor], Tensor]:
    if not onednn.packing_works():
        return lambda x_MK: F.linear(x_MK, weight_NK)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight_NK, 1)
    return lambda x_MK: torch.ops.mkldnn._linear_pointwise(x_MK, packed, None, "none", [], "")


# -- attention --------------------------------------------------------------------------------------------------------


def _attentions(machine: Machine, model: str, heads: HeadLayout, wanted: Wanted) -> Iterator[Case]:
    """Decode, then prefill."""
    decode = [(1, context - 1, requests) for context, requests in DECODE]
    for rows, behind, requests in (*decode, *((PREFILL_ROWS, behind, 1) for behind in PREFILL_BEHIND)):
        settings: Settings = {
            "op": "attention",
            "model": model,
            "rows_each": rows,
            "behind": behind,
            "requests": requests,
        }
        if wanted(settings):
            yield _attention(machine, heads, settings)


def _attention(machine: Machine, heads: HeadLayout, settings: Settings) -> Case:
    rows, behind, requests = (int(settings[name]) for name in ("rows_each", "behind", "requests"))
    H, G, D = heads.num_heads, heads.num_kv_heads, heads.head_dim
    context, count = behind + rows, requests * rows
    blocks = -(-context // BLOCK_SIZE)
    tape = Tape()
    qkv = tape.symbol((H + 2 * G) * D, "tokens")
    out = tape.paged_attention(qkv, draw(requests * blocks, BLOCK_SIZE, 2, G, D), Plan(0, None))
    program = machine.program(tape, [qkv, out])
    tables = [range(r * blocks, (r + 1) * blocks) for r in range(requests)]
    starts, firsts = list(range(0, count + 1, rows)), [behind] * requests
    step = flat_step([0] * count, [], starts, firsts, [tables], BLOCK_SIZE)
    multiply_adds = requests * sum(behind + row + 1 for row in range(rows)) * H * D
    return Case(
        settings=settings,
        work=Work(
            bytes=requests * context * 2 * G * D * 2,
            ops={"bf16": 2 * multiply_adds, "fp32": 2 * multiply_adds},  # scores; the mix of values
        ),
        cold=rows == 1,
        program=program,
        step=step,
        x=qkv,
        torch=_decode_by_torch(heads, requests, context) if rows == 1 else _prefill_by_torch(heads, rows, behind),
        torch_small=_decode_by_torch(heads, 1, BLOCK_SIZE),
    )


def _decode_by_torch(heads: HeadLayout, requests: int, context: int) -> Callable[[], Tensor]:
    """The queries of a KV head as its rows."""
    q = draw(requests, heads.num_kv_heads, heads.queries_per_kv, heads.head_dim)
    k, v = (draw(requests, heads.num_kv_heads, context, heads.head_dim) for _ in range(2))
    return lambda: F.scaled_dot_product_attention(q, k, v)


def _prefill_by_torch(heads: HeadLayout, rows: int, behind: int) -> Callable[[], Tensor]:
    """K and V repeated for each query head, which is not counted."""
    q = draw(1, heads.num_heads, rows, heads.head_dim)
    k, v = (draw(1, heads.num_heads, behind + rows, heads.head_dim) for _ in range(2))
    if behind == 0:
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    seen = torch.ones(rows, behind + rows, dtype=torch.bool).tril(behind)
    mask = torch.zeros(seen.shape, dtype=torch.bfloat16).masked_fill_(~seen, -torch.inf)
    return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


# -- the rest ---------------------------------------------------------------------------------------------------------


def _elementwise(machine: Machine, model: str, shape: LlamaShape, wanted: Wanted) -> Iterator[Case]:
    makers = {
        "rms_norm": _rms_norm,
        "add_rms_norm": _add_rms_norm,
        "gated": _gated,
        "rope_and_write_kv": _rope_and_write_kv,
        "embedding": _embedding,
    }
    for op, make in makers.items():
        for rows in ELEMENTWISE_ROWS:
            settings: Settings = {"op": op, "model": model, "rows": rows}
            if wanted(settings):
                yield make(machine, shape, settings, rows)


def _rms_norm(machine: Machine, shape: LlamaShape, settings: Settings, rows: int) -> Case:
    E, tape, weight = shape.hidden_size, Tape(), torch.ones(shape.hidden_size)
    x = tape.symbol(E, "tokens")
    program = machine.program(tape, [x, tape.rms_norm(x, weight, 1e-5)])
    by_torch = draw(rows, E)
    return Case(
        settings=settings,
        work=Work(bytes=rows * E * 8),
        cold=False,
        program=program,
        step=_rows_step(rows),
        x=x,
        torch=lambda: onednn.rms_norm(by_torch, weight, 1e-5),
    )


def _add_rms_norm(machine: Machine, shape: LlamaShape, settings: Settings, rows: int) -> Case:
    E, tape, weight = shape.hidden_size, Tape(), torch.ones(shape.hidden_size)
    x, y = tape.symbol(E, "tokens"), tape.symbol(E, "tokens")
    total = x + y
    program = machine.program(tape, [x, y, total, tape.rms_norm(total, weight, 1e-5)])
    by_torch = draw(rows, E)
    return Case(
        settings=settings,
        work=Work(bytes=rows * E * 16),
        cold=False,
        program=program,
        step=_rows_step(rows),
        x=x,
        torch=lambda: onednn.rms_norm(by_torch + by_torch, weight, 1e-5),
    )


def _gated(machine: Machine, shape: LlamaShape, settings: Settings, rows: int) -> Case:
    width, tape = shape.intermediate_size, Tape()
    x = tape.symbol(2 * width, "tokens")
    program = machine.program(tape, [x, tape.silu_mul(x)])
    by_torch = draw(rows, 2 * width)
    return Case(
        settings=settings,
        work=Work(bytes=rows * width * 12),
        cold=False,
        program=program,
        step=_rows_step(rows),
        x=x,
        torch=lambda: onednn.silu_mul(by_torch),
    )


def _rope_and_write_kv(machine: Machine, shape: LlamaShape, settings: Settings, rows: int) -> Case:
    """Rows of one request. Q and K are read and written (K as bfloat16), V is read and written, tables are read."""
    H, G, D = shape.heads.num_heads, shape.heads.num_kv_heads, shape.heads.head_dim
    tables = rotary(rope_frequencies(shape.rope_theta, D, None), MOST_CONTEXT)
    blocks = -(-rows // BLOCK_SIZE)
    kv = torch.zeros(blocks, BLOCK_SIZE, 2, G, D, dtype=torch.bfloat16)
    tape = Tape()
    qkv = tape.symbol((H + 2 * G) * D, "tokens")
    tape.rope_and_write_kv(qkv, None, (tables.cos, tables.signed_sin), kv, GroupOf(0))
    program = machine.program(tape, [qkv])
    step = flat_step([0] * rows, [], [0, rows], [0], [[range(blocks)]], BLOCK_SIZE)
    by_torch, slots = draw(rows, qkv.width), torch.arange(rows)
    positions = (tables.cos[:rows], tables.signed_sin[:rows])
    return Case(
        settings=settings,
        work=Work(bytes=rows * D * (8 * H + (4 + 2) * 2 * G + 8)),
        cold=False,
        program=program,
        step=step,
        x=qkv,
        torch=lambda: onednn.rope_and_write_kv(by_torch, None, positions, kv, slots),
    )


def _embedding(machine: Machine, shape: LlamaShape, settings: Settings, rows: int) -> Case:
    E, tape = shape.hidden_size, Tape()
    table = draw(VOCABULARY, E)
    out = tape.embedding(TOKENS, table)
    program = machine.program(tape, [out])
    tokens = [row * 7919 % VOCABULARY for row in range(rows)]
    step = flat_step(tokens, [], [0, rows], [0], [], BLOCK_SIZE)
    by_torch = torch.tensor(tokens)
    return Case(
        settings=settings,
        work=Work(bytes=rows * E * (2 + 4)),
        cold=True,
        program=program,
        step=step,
        x=out,
        torch=lambda: reference.embedding(by_torch, table),
        torch_small=lambda: reference.embedding(by_torch[:1], table[:1]),
    )


# -- what they share --------------------------------------------------------------------------------------------------


def _rows_step(rows: int) -> Any:
    return flat_step([0] * rows, [], [0, rows], [0], [], BLOCK_SIZE)


def _applied(function: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Tensor]:
    return lambda: function(x)
