"""Models of real shapes with random weights: what a step costs depends on shapes and formats, not on values.

Every vocabulary has 49,152 entries, the smallest's: a step samples few rows, and memory goes to the layers instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.native.backend import NativeKernels, NativeWeight, flat_step
from dayzero.kernels.native.program import NativeProgram
from dayzero.kernels.native.recorder import POSITIONS, SAMPLE_AT, TOKENS, GroupOf, Plan, Symbol, Tape
from dayzero.kernels.registry import Kernels
from dayzero.kernels.weights import GROUP, Grouped, LinearForm, Nvfp4, PerChannel
from dayzero.kv.store import KVStore
from dayzero.models.llama import LLAMA, LlamaShape
from dayzero.models.step import Step

BLOCK_SIZE = 16
VOCABULARY = 49152
FORMATS = ("bf16", "q4_0", "q4_1", "q8_0", "int8", "nvfp4")


def _shape(layers: int, hidden: int, intermediate: int, heads: HeadLayout, *, qkv_bias: bool = False) -> LlamaShape:
    return LlamaShape(
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        heads=heads,
        vocab_size=VOCABULARY,
        max_context=8192,
        norm_eps=1e-5,
        rope_theta=1e5,
        rope_scaling=None,
        tied_head=True,
        qkv_bias=qkv_bias,
    )


SHAPES = {
    "SmolLM2-135M": _shape(30, 576, 1536, HeadLayout(9, 3, 64)),
    "Qwen2.5-0.5B": _shape(24, 896, 4864, HeadLayout(14, 2, 64), qkv_bias=True),
    "Llama-3.2-1B": _shape(16, 2048, 8192, HeadLayout(32, 8, 64)),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """The extension, one of its instruction sets by name, and the threads of everything that is measured."""

    native: Any
    instruction_set: str
    pool: Any

    def program(self, tape: Tape, kept: Sequence[Symbol]) -> NativeProgram:
        return NativeProgram(self.native, self.pool, self.instruction_set, tape, kept)


def draw(*shape: int) -> Tensor:
    """Standard normal, bfloat16: a million numbers over and over, which no cache and no kernel can tell."""
    sample = torch.randn((1 << 20) - 1, generator=torch.Generator().manual_seed(1)).bfloat16()
    size = math.prod(shape)
    return sample.repeat(-(-size // sample.numel()))[:size].view(shape)


def draw_codes(bits: int, *shape: int) -> Tensor:
    """Uniform, uint8; repeated likewise."""
    generator = torch.Generator().manual_seed(1)
    sample = torch.randint(1 << bits, ((1 << 20) - 1,), generator=generator, dtype=torch.uint8)
    size = math.prod(shape)
    return sample.repeat(-(-size // sample.numel()))[:size].view(shape)


def draw_form(name: str, features: int, inner: int) -> LinearForm:
    """A weight [N, K] in a format, scaled so that a product keeps the size of its input."""
    if name == "bf16":
        return draw(features, inner) / math.sqrt(inner)
    bits = 8 if name in ("q8_0", "int8") else 4
    codes = draw_codes(bits, features, inner)
    if name == "nvfp4":
        scales = torch.ones(features, inner // 16).to(torch.float8_e4m3fn)
        return Nvfp4(codes, scales, 1 / (3 * math.sqrt(inner)))
    scale = math.sqrt(12) / (2**bits * math.sqrt(inner))
    if name == "int8":
        return PerChannel(codes, torch.full((features,), scale))
    scales = torch.full((features, inner // GROUP), scale, dtype=torch.float16)
    return Grouped(bits, codes, scales, minima=-8 * scales if name == "q4_1" else None)


def prepare(form: LinearForm) -> NativeWeight:
    """Packed. Panels are the same for every instruction set and number of threads."""
    return NativeKernels(1).prepare_linear([form])


class RandomTake:
    """What a family's `build` takes from."""

    def __init__(self, shape: LlamaShape, format_name: str) -> None:
        self._table = LLAMA.tensors(shape)
        self._format_name = format_name

    def __call__(self, name: str) -> Tensor:
        shape = self._table[name].shape
        return draw(*shape) if len(shape) > 1 else torch.ones(shape, dtype=torch.bfloat16)

    def linear(self, *names: str) -> NativeWeight:
        shapes = [self._table[name].shape for name in names]
        return prepare(draw_form(self._format_name, sum(features for features, _ in shapes), shapes[0][1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A step of `requests` requests with `rows_each` rows, all of which sample; the first stands at `position`."""

    requests: int
    rows_each: int
    position: int


class RandomModel:
    """A body and a head, recorded as an engine records them."""

    def __init__(self, machine: Machine, shape: LlamaShape, format_name: str, *, most: Rows) -> None:
        groups = LLAMA.groups(shape, 2 * shape.heads.head_dim)
        self._blocks_each = -(-(most.position + most.rows_each) // BLOCK_SIZE)
        store = KVStore(groups, [most.requests * self._blocks_each + 1], BLOCK_SIZE, shape.heads, torch.bfloat16)
        weights = LLAMA.build(shape, RandomTake(shape, format_name))
        body, head = Tape(), Tape()
        step = Step(
            tokens=cast("Tensor", TOKENS),
            positions=cast("Tensor", POSITIONS),
            slots=(cast("Tensor", GroupOf(0)),),
            plans=(Plan(0, None),),
            sample_at=cast("Tensor", SAMPLE_AT),
        )
        hidden = LLAMA.forward(weights, step, store, cast("Kernels", body))
        self._hidden = cast("Symbol", hidden.rows)
        self._head_in = head.symbol(shape.hidden_size, "tokens")
        logits = LLAMA.logits(weights, cast("Tensor", self._head_in), cast("Kernels", head))
        self._body = machine.program(body, [self._hidden])
        self._head = machine.program(head, [self._head_in, cast("Symbol", logits)])

    def read(self, rows: Rows) -> None:
        """Take a step, which the next runs compute."""
        count = rows.requests * rows.rows_each
        tables = [range(1 + r * self._blocks_each, 1 + (r + 1) * self._blocks_each) for r in range(rows.requests)]
        starts = list(range(0, count + 1, rows.rows_each))
        firsts = [rows.position] * rows.requests
        self._steps = (
            flat_step([i * 97 % VOCABULARY for i in range(count)], range(count), starts, firsts, [tables], BLOCK_SIZE),
            flat_step([0] * count, [], [0, count], [0], [], BLOCK_SIZE),
        )
        self._body.read(self._steps[0])
        self._head.read(self._steps[1])
        self._head.view(self._head_in, count).copy_(self._body.view(self._hidden, count))

    @property
    def num_ops(self) -> int:
        return self._body.num_ops + self._head.num_ops

    def run(self) -> None:
        """Replay the step."""
        self._body.run()
        self._head.run()

    def run_body_timed(self) -> list[tuple[str, int]]:
        """Replay the step without its head; name and nanoseconds of each op."""
        return self._body.run_timed()

    def run_op_by_op(self) -> None:
        """The same step, each op called from Python."""
        self._body.run_op_by_op()
        self._head.run_op_by_op()
