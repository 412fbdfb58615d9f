"""A model that is ready to compute steps: its weights, its KV, and one of two ways to run its forward pass.

Eager     torch tensors through the family's forward pass, an op at a time; logits answered by numpy
Recorded  the forward pass recorded once and replayed by native code, which answers its logits, too

Knows nothing of requests: a step is a layout, and what is asked of its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from dayzero.engine.pooling import Row
from dayzero.kernels.native.backend import NativeKernels, flat_step
from dayzero.kernels.native.recorder import POSITIONS, SAMPLE_AT, TOKENS, GroupOf, Plan, Symbol, Tape
from dayzero.kernels.registry import Kernels
from dayzero.kv.groups import CacheGroup
from dayzero.kv.store import KVStore
from dayzero.models.family import Family
from dayzero.models.step import Hidden, Step
from dayzero.sampling.answers import Answer, Asked, answer
from dayzero.sampling.native import NativeSampler

HEAD_ROWS = 128  # logits held at once: a whole prompt's would be 200 MB a thousand tokens at a vocabulary of 49,152


@dataclass(frozen=True, slots=True)
class Layout:
    """A batch as plain numbers: T tokens of R requests.

    tokens           [T]
    sample_at        rows whose hidden state is wanted: those that something is asked of, then those wanted as they are
    query_starts     request r owns rows [query_starts[r], query_starts[r + 1])
    first_positions  position of each request's first row
    block_tables     for each cache group, of each request
    """

    tokens: Sequence[int]
    sample_at: Sequence[int]
    query_starts: Sequence[int]
    first_positions: Sequence[int]
    block_tables: Sequence[Sequence[Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of a step.

    rows        one for each row that something was asked of
    hidden      the other rows of `sample_at`, float32 [E] each
    not_finite  rows, of all T, that are not finite after the last layer
    """

    rows: list[Answer]
    not_finite: list[int]
    hidden: Sequence[Row] = ()


class Model(Protocol):
    """What a runner needs of it, and below that what a scorer does."""

    def answer(self, layout: Layout, asked: Sequence[Asked]) -> Answers:
        """Compute a step; asked: of the first rows in `layout.sample_at`."""
        ...

    def forward(self, layout: Layout) -> Hidden:
        """The sampled rows, and the residual stream after the last layer; valid until the next call."""
        ...

    def logits(self, hidden_NE: Tensor) -> Tensor:
        """[N, V] float32; valid until the next call."""
        ...


def bind(
    family: Family,
    weights: Any,
    kernels: Kernels | NativeKernels,
    store: KVStore,
    groups: Sequence[CacheGroup],
    block_size: int,
) -> Model:
    """The model, in the way that its kernels want to be called."""
    if isinstance(kernels, NativeKernels):
        return RecordedModel(family, weights, kernels, store, groups, block_size)
    return EagerModel(family, weights, kernels, store, groups, block_size)


class EagerModel:
    """An op at a time."""

    def __init__(
        self,
        family: Family,
        weights: Any,
        kernels: Kernels,
        store: KVStore,
        groups: Sequence[CacheGroup],
        block_size: int,
    ) -> None:
        self._family = family
        self._weights = weights
        self._kernels = kernels
        self._store = store
        self._groups = tuple(groups)
        self._block_size = block_size

    def answer(self, layout: Layout, asked: Sequence[Asked]) -> Answers:
        """A forward pass, then the head and its answers in slices of rows."""
        hidden = self.forward(layout)
        asked_NE, wanted_ME = hidden.rows[: len(asked)], hidden.rows[len(asked) :]
        answers: list[Answer] = []
        with torch.inference_mode():
            for start in range(0, len(asked), HEAD_ROWS):
                part = slice(start, start + HEAD_ROWS)
                answers += answer(self.logits(asked_NE[part]), asked[part])
            # A sum keeps what is not finite, and costs a twentieth of asking each element.
            not_finite = hidden.taps[0].sum(-1).isfinite().logical_not_().nonzero()
        return Answers(answers, not_finite.squeeze(1).tolist(), list(wanted_ME.float().numpy()))

    def forward(self, layout: Layout) -> Hidden:
        """Also clears blocks that this step opens."""
        with torch.inference_mode():
            step = self._step(layout)
            self._clear_opened(layout)
            return self._family.forward(self._weights, step, self._store, self._kernels, (_last_layer(self._weights),))

    def logits(self, hidden_NE: Tensor) -> Tensor:
        """One product."""
        assert self._family.logits is not None, self._family.name
        with torch.inference_mode():
            return self._family.logits(self._weights, hidden_NE, self._kernels).float()

    def _step(self, layout: Layout) -> Step:
        positions = [first + row for first, start, stop in _spans(layout) for row in range(stop - start)]
        slots, plans = [], []
        for group, tables in zip(self._groups, layout.block_tables, strict=True):
            slots.append(torch.tensor(self._slots(layout, tables)))
            plans.append(
                self._kernels.plan_attention(
                    layout.query_starts, layout.first_positions, tables, self._block_size, group.window
                )
            )
        return Step(
            tokens=torch.tensor(layout.tokens),
            positions=torch.tensor(positions),
            slots=tuple(slots),
            plans=tuple(plans),
            sample_at=torch.tensor(layout.sample_at, dtype=torch.int64),
            query_starts=layout.query_starts,
        )

    def _clear_opened(self, layout: Layout) -> None:
        """Clear each block that a span begins and does not fill: a mask turns 0 * NaN into NaN, not into 0."""
        size = self._block_size
        ends = [(first, first + stop - start) for first, start, stop in _spans(layout)]
        for group, tables in zip(self._groups, layout.block_tables, strict=True):
            opened = [
                table[stop // size]
                for (first, stop), table in zip(ends, tables, strict=True)
                if stop % size and stop // size * size >= first
            ]
            if opened:
                self._store.clear(group.layers, opened)

    def _slots(self, layout: Layout, tables: Sequence[Sequence[int]]) -> list[int]:
        size = self._block_size
        return [
            table[position // size] * size + position % size
            for (first, start, stop), table in zip(_spans(layout), tables, strict=True)
            for position in range(first, first + stop - start)
        ]


class RecordedModel:
    """A forward pass that was recorded when the model was bound."""

    def __init__(
        self,
        family: Family,
        weights: Any,
        kernels: NativeKernels,
        store: KVStore,
        groups: Sequence[CacheGroup],
        block_size: int,
    ) -> None:
        assert family.logits is not None, family.name
        self._block_size = block_size
        body = Tape()
        step = Step(
            tokens=cast("Tensor", TOKENS),
            positions=cast("Tensor", POSITIONS),
            slots=tuple(cast("Tensor", GroupOf(i)) for i in range(len(groups))),
            plans=tuple(Plan(i, group.window) for i, group in enumerate(groups)),
            sample_at=cast("Tensor", SAMPLE_AT),
        )
        hidden = family.forward(weights, step, store, cast("Kernels", body), (_last_layer(weights),))
        self._rows, self._tap = cast("Symbol", hidden.rows), cast("Symbol", hidden.taps[0])
        self._body = kernels.program(body, [self._rows, self._tap])
        head = Tape()
        self._head_in = head.symbol(self._rows.width, "tokens")
        logits = family.logits(weights, cast("Tensor", self._head_in), cast("Kernels", head))
        self._head_out = cast("Symbol", logits)
        self._head = kernels.program(head, [self._head_out])
        self._sampler = NativeSampler(kernels.vocabulary(), self._head_out.width)

    def answer(self, layout: Layout, asked: Sequence[Asked]) -> Answers:
        """One replay of the body, then the head and its answers in slices of rows.

        All that can be is prepared before: after a replay the caches hold weights, and whatever Python does is slow.
        """
        slices = [self._sampler.packed(asked[start : start + HEAD_ROWS]) for start in range(0, len(asked), HEAD_ROWS)]
        self._replay(layout)
        answers: list[Answer] = []
        for packed in slices:
            self._project(self._body.address(self._rows) + 4 * self._rows.width * len(answers), len(packed.asked))
            answers += self._sampler.answer(self._head.address(self._head_out), packed)
        return Answers(answers, self._body.rows_not_finite(self._tap), self._hidden(len(asked), len(layout.sample_at)))

    def forward(self, layout: Layout) -> Hidden:
        """One replay."""
        self._replay(layout)
        rows = self._body.view(self._rows, len(layout.sample_at))
        return Hidden(rows, (self._body.view(self._tap, len(layout.tokens)),))

    def logits(self, hidden_NE: Tensor) -> Tensor:
        """Another replay, of the head alone."""
        self._project(hidden_NE.contiguous().data_ptr(), len(hidden_NE))
        return self._head.view(self._head_out, len(hidden_NE))

    def _hidden(self, start: int, stop: int) -> Sequence[Row]:
        """A copy of sampled rows, which the next step overwrites."""
        return () if start == stop else list(self._body.view(self._rows, stop)[start:].clone().numpy())

    def _replay(self, layout: Layout) -> None:
        step = flat_step(
            layout.tokens,
            layout.sample_at,
            layout.query_starts,
            layout.first_positions,
            layout.block_tables,
            self._block_size,
        )
        self._body.read(step)
        self._body.run()

    def _project(self, address: int, rows: int) -> None:
        """The head of hidden states at an address."""
        self._head.feed(self._head_in, address, rows)
        self._head.run()


def _spans(layout: Layout) -> list[tuple[int, int, int]]:
    """(first position, first row, end of rows) of each request."""
    return list(zip(layout.first_positions, layout.query_starts, layout.query_starts[1:], strict=False))


def _last_layer(weights: Any) -> int:
    return len(weights.layers) - 1
