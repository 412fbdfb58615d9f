"""Native kernels as a choice: for which models and machines, and what they need while weights are loaded."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dayzero.core.spec import KernelChoice
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.native.extension import best_instruction_set, module
from dayzero.kernels.native.program import NativeProgram
from dayzero.kernels.native.recorder import Symbol, Tape
from dayzero.kernels.native.vocabulary import NativeVocabulary
from dayzero.kernels.ops import DECODER_OPS
from dayzero.kernels.weights import Grouped, LinearForm, Mxfp4, Nvfp4, PerChannel, TwoLevel

LANES = 16  # head sizes and KV blocks come in whole vectors
SPIN_US = 50  # that threads wait awake for the next step: decision 0010


@dataclass(frozen=True, slots=True, eq=False)
class NativeWeight:
    """A weight that only a native program reads: parts of one format each, one under the other."""

    features: int
    packed: Callable[[], tuple[Any, ...]]  # waits, if another thread packs it

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.packed()

    @property
    def bytes(self) -> int:
        """Of memory, which every token reads."""
        return sum(part.bytes for part in self.parts)


def obstacle(dtype: torch.dtype, heads: HeadLayout, block_size: int) -> str:
    """Why native kernels cannot serve a model here; empty if they can."""
    if dtype is not torch.bfloat16:
        return f"native kernels compute in bfloat16, not in {str(dtype).removeprefix('torch.')}"
    if not heads.is_causal:
        return "native kernels attend to what came before, and an encoder to what follows, too"
    if heads.head_dim % LANES:
        return f"native kernels need heads of whole vectors: {heads.head_dim} is no multiple of {LANES}"
    if block_size % LANES:
        return f"native kernels need KV blocks of whole vectors: {block_size} is no multiple of {LANES}"
    return best_instruction_set()[1]


class NativeKernels:
    """One pool of threads and the code for one instruction set: the named one, or the best that can run here.

    poisoned  for tests: memory that a step reads before it writes it holds NaN (native/program.hpp)
    """

    def __init__(
        self, num_threads: int, instruction_set: str | None = None, *, spin_us: int = SPIN_US, poisoned: bool = False
    ) -> None:
        native, (best, why_not) = module(), best_instruction_set()
        assert native is not None, why_not
        name = instruction_set or best
        assert name is not None, why_not
        assert not native.missing(name), f"{name} needs {native.missing(name)}"
        self._native: Any = native
        self._instruction_set = name
        self._why = "asked for" if instruction_set else "the best instruction set that this processor has"
        self._pool = native.ThreadPool(num_threads, spin_us)
        self._poisoned = poisoned

    @property
    def num_threads(self) -> int:
        return int(self._pool.size)

    @property
    def choices(self) -> tuple[KernelChoice, ...]:
        """Every op of a decoder, and why."""
        why = f"{self._why}: {self._instruction_set}"
        return tuple(KernelChoice(op.name, f"native/{self._instruction_set}", why) for op in DECODER_OPS)

    def heights(self) -> dict[str, str]:
        """None are probed: a row's bits depend on nothing but the row by construction."""
        return {}

    def prepare_linear(self, forms: Sequence[LinearForm]) -> NativeWeight:
        """Pack the parts of a weight. The caller should drop the originals."""
        parts = tuple(self._pack(form) for form in forms)
        return NativeWeight(sum(part.features for part in parts), lambda: parts)

    def prepare_linear_on(
        self, threads: Executor, features: int, encode: Callable[[], Sequence[LinearForm]]
    ) -> NativeWeight:
        """The same on another thread: make the forms, `features` in all, and pack them. Errors come with `parts`."""
        packing = threads.submit(lambda: tuple(map(self._pack, encode())))
        return NativeWeight(features, packing.result)

    def _pack(self, form: LinearForm) -> Any:
        weight = self._native.Weight
        if isinstance(form, Tensor):
            rows = form.to(torch.bfloat16).contiguous()
            return weight.bf16(rows.data_ptr(), *rows.shape)
        features, inner = form.codes.shape
        assert form.codes.is_contiguous()
        assert form.scales.is_contiguous()
        if isinstance(form, PerChannel):
            return weight.per_channel(form.codes.data_ptr(), form.scales.data_ptr(), features, inner)
        if isinstance(form, Nvfp4):
            return weight.nvfp4(form.codes.data_ptr(), form.scales.data_ptr(), form.global_scale, features, inner)
        if isinstance(form, Mxfp4):
            return weight.mxfp4(form.codes.data_ptr(), form.scales.data_ptr(), features, inner)
        if isinstance(form, TwoLevel):
            addresses = map(_address, (form.codes, form.scales, form.super_scales, form.minima, form.super_minima))
            return weight.two_level(form.bits, *addresses, features, inner)
        low, lows = self._lows(form)
        addresses = map(_address, (form.codes, form.scales, lows, form.order))
        return weight.grouped(form.bits, form.group, low, *addresses, features, inner, form.rotated)

    def _lows(self, form: Grouped) -> tuple[Any, Tensor | None]:
        """What is taken off or added to codes, and the numbers of it in float16."""
        low = self._native.Low
        if form.minima is not None:
            return low.MINIMUM, form.minima
        if form.zeros is not None:
            return low.ZERO, form.zeros.half()
        return low.MIDDLE, None

    def vocabulary(self) -> NativeVocabulary:
        """What makes tokens of logits."""
        return NativeVocabulary(self._native, self._pool, self._instruction_set, poisoned=self._poisoned)

    def program(self, tape: Tape, kept: Sequence[Symbol]) -> NativeProgram:
        """What was recorded, ready to run; `kept` can be read afterwards."""
        return NativeProgram(self._native, self._pool, self._instruction_set, tape, kept, poisoned=self._poisoned)


def _address(tensor: Tensor | None) -> int:
    """0 for None."""
    if tensor is None:
        return 0
    assert tensor.is_contiguous()
    return tensor.data_ptr()


@dataclass(frozen=True, slots=True)
class Sections:
    """What native/step.hpp lets a step have beside its rows; None: absent.

    dropped, biased  for each cache group, of each request
    trees            of each request, the masks of its last rows
    """

    dropped: Sequence[Sequence[int]] | None = None
    biased: Sequence[Sequence[int]] | None = None
    trees: Sequence[Sequence[int]] | None = None

    def flat(self) -> list[int]:
        """Each behind its number."""
        flat: list[int] = []
        for number, of_groups in ((1, self.dropped), (2, self.biased)):
            if of_groups is not None:
                flat += [number, *itertools.chain(*of_groups)]
        if self.trees is not None:
            masks = np.array([*itertools.chain(*self.trees)], dtype="<u8")
            flat += [3, *map(len, self.trees), *masks.view("<i4").tolist()]
        return flat


NO_SECTIONS = Sections()


def flat_step(
    tokens: Sequence[int],
    sample_at: Sequence[int],
    query_starts: Sequence[int],
    first_positions: Sequence[int],
    block_tables: Sequence[Sequence[Sequence[int]]],
    block_size: int,
    sections: Sections = NO_SECTIONS,
) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """A step as native/step.hpp reads it; block_tables: one for each request of each cache group."""
    strides = [max(map(len, tables), default=0) for tables in block_tables]
    flat = [len(tokens), len(sample_at), len(first_positions), block_size, len(strides), *strides]
    flat += tokens
    flat += sample_at
    flat += query_starts
    flat += first_positions
    for stride, tables in zip(strides, block_tables, strict=True):
        for table in tables:
            flat += table
            flat += [0] * (stride - len(table))
    flat += sections.flat()
    return np.array(flat, dtype=np.int32)
