"""Requests whose K and V lie in a pool as the native kernels have it, and dependable attention over them.

Blocks that no request holds, and slots beyond a request's last token, are NaN: whoever reads them shows it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.kv_format import decode, encode, head_dim_of
from dayzero.kernels.native.backend import flat_step
from dayzero.kernels.native.recorder import Plan, Tape
from tests.kernels.native.replay import Flat, Machine, replay

TILE = 16  # keys that lie together, feature pair by feature pair


@dataclass(frozen=True)
class Span:
    """Rows of a step that belong to one request."""

    request: int
    first: int  # position
    rows: int


def packed(k_BSGD: Tensor, v_BSGD: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Blocks as native/attention.hpp says, in the shape of a pool [B, S, 2, G, X]."""
    B, S, G, D = k_BSGD.shape
    k, v = encode(k_BSGD, dtype), encode(v_BSGD, dtype)
    codes = [
        k[..., :D].reshape(B, S // TILE, TILE, G, D // 2, 2).permute(0, 3, 1, 4, 2, 5).flatten(1),
        v[..., :D].permute(0, 2, 1, 3).flatten(1),
    ]
    scales = [x[..., D:].permute(0, 2, 1, 3).flatten(1) for x in (k, v)]
    return torch.cat([*codes, *scales], dim=1).view(B, S, 2, G, -1)


def unpacked(kv_BS2GX: Tensor) -> tuple[Tensor, Tensor]:
    """K and V [B, S, G, X] of a pool."""
    B, S, _, G, X = kv_BS2GX.shape
    D = head_dim_of(kv_BS2GX)
    k, v, *scales = kv_BS2GX.view(B, -1).split_with_sizes([S * G * D] * 2 + [S * G * (X - D)] * 2, 1)
    k = k.view(B, G, S // TILE, D // 2, TILE, 2).permute(0, 2, 4, 1, 3, 5).reshape(B, S, G, D)
    v = v.view(B, G, S, D).permute(0, 2, 1, 3)
    k_scale, v_scale = (x.view(B, G, S, X - D).permute(0, 2, 1, 3) for x in scales)
    return torch.cat([k, k_scale], -1), torch.cat([v, v_scale], -1)


class Stored:
    """K, V and queries of each request, and their blocks in random order."""

    def __init__(
        self,
        heads: HeadLayout,
        lengths: Sequence[int],
        block_size: int = 16,
        kv_dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        shape = (heads.num_kv_heads, heads.head_dim)
        self.heads, self.block_size, self.kv_dtype = heads, block_size, kv_dtype
        self.q = [torch.randn(n, heads.num_heads, heads.head_dim, generator=generator) * 2 for n in lengths]
        self.k = [torch.randn(n, *shape, generator=generator) for n in lengths]
        self.v = [torch.randn(n, *shape, generator=generator) for n in lengths]
        counts = [-(-n // block_size) for n in lengths]
        order = (1 + torch.randperm(2 * sum(counts), generator=generator)).tolist()
        self.tables = [[order.pop() for _ in range(count)] for count in counts]
        self._num_blocks = 1 + 2 * sum(counts)

    def pool(self) -> Tensor:
        heads = self.heads
        slots = (self._num_blocks * self.block_size, heads.num_kv_heads, heads.head_dim)
        k, v = (torch.full(slots, float("nan")) for _ in range(2))
        k[: self.block_size], v[: self.block_size] = 0, 0  # the null block
        for request, table in enumerate(self.tables):
            at = torch.tensor([self.block_size * block + i for block in table for i in range(self.block_size)])
            at = at[: len(self.k[request])]
            k[at], v[at] = self.k[request], self.v[request]
        shape = (self._num_blocks, self.block_size, heads.num_kv_heads, heads.head_dim)
        return packed(k.view(shape), v.view(shape), self.kv_dtype)

    def step(self, spans: Sequence[Span]) -> Flat:
        starts = [0]
        for span in spans:
            starts.append(starts[-1] + span.rows)
        tables = [self.tables[span.request] for span in spans]
        return flat_step([0] * starts[-1], [], starts, [span.first for span in spans], [tables], self.block_size)

    def queries(self, span: Span) -> Tensor:
        return self.q[span.request][span.first : span.first + span.rows]

    def judge(self, span: Span, window: int | None, dtype: torch.dtype, scale: float | None = None) -> Tensor:
        """[rows, H * D], from the definition, over K and V as stored; queries are rounded to bfloat16."""
        stop, queries = span.first + span.rows, self.heads.queries_per_kv
        q_THD = self.queries(span).bfloat16().to(dtype)
        stored = [decode(encode(x[span.request][:stop], self.kv_dtype)) for x in (self.k, self.v)]
        k_LHD, v_LHD = (x.to(dtype).repeat_interleave(queries, 1) for x in stored)
        scores = torch.einsum("thd,lhd->htl", q_THD, k_LHD) * (scale or 1 / math.sqrt(self.heads.head_dim))
        behind = torch.arange(span.first, stop)[:, None] - torch.arange(stop)
        seen = (behind >= 0) & (behind < (window or stop))
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        return torch.einsum("htl,lhd->thd", weights, v_LHD).flatten(1)


class Reader:
    """Attention over stored requests, as a program."""

    def __init__(self, machine: Machine, stored: Stored, window: int | None = None, scale: float | None = None) -> None:
        heads = stored.heads
        self.stored, self.pool = stored, stored.pool()  # what becomes of the stored later is not in the pool
        tape = Tape()
        qkv = tape.symbol((heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim, "tokens")
        self._program = replay(machine, tape, [qkv], [tape.paged_attention(qkv, self.pool, Plan(0, window), scale)])

    def __call__(self, spans: Sequence[Span]) -> list[Tensor]:
        """[rows, H * D] of each span, all in one step. K and V in the rows themselves are NaN: nobody reads them."""
        heads = self.stored.heads
        width = heads.num_heads * heads.head_dim
        q = torch.cat([torch.empty(0, width), *(self.stored.queries(span).flatten(1) for span in spans)])
        beside = torch.full((len(q), 2 * heads.num_kv_heads * heads.head_dim), float("nan"))
        (out,) = self._program(self.stored.step(spans), torch.cat([q, beside], dim=1))
        ends = itertools.accumulate(span.rows for span in spans)
        return [out[end - span.rows : end] for end, span in zip(ends, spans, strict=True)]
