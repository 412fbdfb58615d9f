"""torch's CPU kernels (oneDNN, MKL, flash attention), called so that a row's bits do not depend on its companions.

Linear: weights packed once for oneDNN where its private operators exist, calls padded and cut to probed numbers of
rows. Attention: one SDPA call for each bucket of positions (see `attention`) with query tiles of a fixed height, over
K and V gathered from the pool as stored. Neither knows of requests beyond rows, positions and block tables.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dayzero.kernels import reference
from dayzero.kernels.attention import Bucket, HeadLayout, Segment, segments
from dayzero.kernels.rows import CANDIDATES, Heights, cancelling, elementwise_slices, probe

TILE_ROWS = 64  # most query rows of a tile: flash attention's own block is 32 or more
WIDE = 16384  # features above which a call has at most 32 rows: a vocabulary's width is slow to probe, not to slice


def packing_works() -> bool:
    """Whether this torch build has the private operators that pack a weight for oneDNN."""
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(torch.zeros(16, 16, dtype=torch.bfloat16), 1)
        torch.ops.mkldnn._linear_pointwise(torch.zeros(1, 16, dtype=torch.bfloat16), packed, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight that only `linear` reads. `features` is N."""

    weight: Tensor
    features: int
    heights: Heights
    packed: bool

    def apply(self, x_MK: Tensor, bias_N: Tensor | None) -> Tensor:
        """One library call."""
        if self.packed:
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x_MK, self.weight, bias_N, "none", [], "")
            return out
        return F.linear(x_MK, self.weight, bias_N)


class Linear:
    """`prepare_linear` and `linear` for one dtype. Heights are probed once for each shape and kept."""

    def __init__(self, dtype: torch.dtype, *, packed: bool) -> None:
        self._dtype = dtype
        self._packed = packed
        self._heights: dict[tuple[int, int], Heights] = {}

    @property
    def heights(self) -> dict[tuple[int, int], Heights]:
        """The probed heights of each (K, N): part of the numerics."""
        return dict(self._heights)

    def prepare(self, weight_NK: Tensor) -> PackedWeight:
        """Pack a weight [N, K]. The caller should drop the original: this is the one copy that is needed."""
        features, inner = weight_NK.shape
        heights = self._heights.get((inner, features))
        if heights is None:
            heights = self._heights[inner, features] = self._probe(inner, features)
        return self._pack(weight_NK, heights)

    def linear(self, x_TK: Tensor, weight: PackedWeight, bias_N: Tensor | None = None) -> Tensor:
        """[T, N]."""
        parts = [_padded(weight, x_TK[start:stop], bias_N) for start, stop in weight.heights.slices(x_TK.shape[0])]
        if len(parts) == 1:
            return parts[0]
        return torch.cat(parts) if parts else x_TK.new_empty(0, weight.features)

    def _pack(self, weight_NK: Tensor, heights: Heights) -> PackedWeight:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight_NK, 1) if self._packed else weight_NK
        return PackedWeight(packed, weight_NK.shape[0], heights, self._packed)

    def _probe(self, inner: int, features: int) -> Heights:
        """Probe a weight of the same shape. 64 rows repeated: a draw of a vocabulary's width would cost a second."""
        x, w = cancelling(128, inner, self._dtype, torch.Generator().manual_seed(inner * 1_000_003 + features))
        tiled = w.repeat(-(-features // w.shape[0]), 1)[:features].contiguous()
        weight = self._pack(tiled, Heights(CANDIDATES))
        most = 128 if features <= WIDE else 32
        return probe(lambda part: weight.apply(part.contiguous(), None), x, most)


def _padded(weight: PackedWeight, x_MK: Tensor, bias_N: Tensor | None) -> Tensor:
    """One call, with rows added up to one of the weight's heights."""
    num_rows = x_MK.shape[0]
    missing = weight.heights.fit(num_rows) - num_rows
    if missing == 0:
        return weight.apply(x_MK, bias_N)
    return weight.apply(F.pad(x_MK, (0, 0, 0, missing)), bias_N)[:num_rows]


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """One SDPA call: n tiles of `tokens` query tokens each, over `kv_tokens` keys of one or n block stretches.

    rows     [n * tokens] rows of the step; rows that pad a tile repeat its last. None: all rows of the step, in order
    blocks   [n * blocks] or [blocks]: one stretch that all tiles share
    mask     [n, 1, tokens * queries_per_kv (padded), kv_tokens], to be added to the scores: 0, or -inf where not read
    """

    rows: Tensor | None
    blocks: Tensor
    mask: Tensor
    tiles: int
    tokens: int
    stretches: int


class Attention:
    """`plan_attention` and `paged_attention` for one head layout.

    `min_rows` is the least height of a tile: flash attention has another order of additions for very few query rows.
    """

    def __init__(self, heads: HeadLayout, dtype: torch.dtype, *, min_rows: int) -> None:
        self._dtype = dtype
        self._num_kv_heads = heads.num_kv_heads
        self._queries_per_kv = heads.queries_per_kv
        self._min_rows = min_rows
        self._tile_tokens = max(1, TILE_ROWS // self._queries_per_kv)

    def plan(
        self,
        query_starts: Sequence[int],
        first_positions: Sequence[int],
        block_tables: Sequence[Sequence[int]],
        block_size: int,
        window: int | None,
    ) -> tuple[AttentionCall, ...]:
        """The calls of a step, made once and used by every layer of a cache group.

        Single tokens of one bucket share a call; longer segments get a call each, whose tiles share their KV.
        """
        single: dict[Bucket, list[Segment]] = defaultdict(list)
        calls = []
        for segment in segments(query_starts, first_positions, window):
            if segment.length == 1:
                single[segment.bucket].append(segment)
            else:
                calls.append(self._call([segment], self._tile_tokens, block_tables, block_size, window))
        calls.extend(self._call(group, 1, block_tables, block_size, window) for group in single.values())
        if len(calls) == 1 and len(block_tables) == query_starts[-1]:  # one token of each, the usual step
            calls[0] = dataclasses.replace(calls[0], rows=None)
        return tuple(calls)

    def _call(
        self,
        group: Sequence[Segment],
        tokens: int,
        block_tables: Sequence[Sequence[int]],
        block_size: int,
        window: int | None,
    ) -> AttentionCall:
        home = group[0].bucket
        rows: list[int] = []
        positions: list[int] = []
        blocks: list[int] = []
        for segment in group:
            padded = -(-segment.length // tokens) * tokens
            offsets = [min(i, segment.length - 1) for i in range(padded)]
            rows.extend(segment.row + i for i in offsets)
            positions.extend(segment.position + i for i in offsets)
            # What lies beyond the segment is masked, but may be left from another request and not even be finite.
            written = -(-(segment.position + segment.length) // block_size)
            stretch = block_tables[segment.request][home.kv_start // block_size : written]
            blocks.extend(stretch)
            blocks.extend([0] * ((home.stop - home.kv_start) // block_size - len(stretch)))
        tiles = len(rows) // tokens
        position = torch.tensor(positions).view(tiles, tokens, 1)
        key = torch.arange(home.kv_start, home.stop)
        seen = key <= position
        if window is not None:
            seen &= key > position - window
        mask = seen.repeat_interleave(self._queries_per_kv, dim=1)
        if mask.shape[1] < self._min_rows:  # rows that pad the tile read what the first row reads
            mask = torch.cat([mask, mask[:, :1].expand(-1, self._min_rows - mask.shape[1], -1)], dim=1)
        added = torch.zeros(tiles, 1, *mask.shape[1:], dtype=self._dtype).masked_fill_(~mask[:, None], -torch.inf)
        return AttentionCall(torch.tensor(rows), torch.tensor(blocks), added, tiles, tokens, len(group))

    def attend(
        self, q_THD: Tensor, kv_BS2GD: Tensor, plan: tuple[AttentionCall, ...], scale: float | None = None
    ) -> Tensor:
        """[T, H, D]."""
        out_THD = torch.empty_like(q_THD, memory_format=torch.contiguous_format)
        for call in plan:
            if call.rows is None:
                return self._run(call, q_THD, kv_BS2GD, scale)
            out_THD.index_copy_(0, call.rows, self._run(call, q_THD.index_select(0, call.rows), kv_BS2GD, scale))
        return out_THD

    def _run(self, call: AttentionCall, q_THD: Tensor, kv_BS2GD: Tensor, scale: float | None) -> Tensor:
        """[T, H, D] for the rows of one call, those that pad a tile included."""
        _, num_heads, head_dim = q_THD.shape
        groups, queries = self._num_kv_heads, self._queries_per_kv
        q = q_THD.view(call.tiles, call.tokens, groups, queries, head_dim)
        q = q.transpose(1, 2).reshape(call.tiles, groups, call.tokens * queries, head_dim)
        missing = call.mask.shape[2] - q.shape[2]
        if missing:
            q = F.pad(q, (0, 0, 0, missing))
        kv = kv_BS2GD.index_select(0, call.blocks).view(call.stretches, -1, 2, groups, head_dim)
        k, v = (x.transpose(1, 2).expand(call.tiles, -1, -1, -1) for x in kv.unbind(2))
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=call.mask, scale=scale)
        o = o[:, :, : call.tokens * queries].view(call.tiles, groups, call.tokens, queries, head_dim)
        return o.transpose(1, 2).reshape(-1, num_heads, head_dim)


def probe_min_rows(heads: HeadLayout, dtype: torch.dtype) -> int:
    """The least tile height from which SDPA gives a query row the same bits at every height up to TILE_ROWS.

    Keys come in equal pairs with opposite values, so that the exact output is zero and only the order shows.
    """
    generator = torch.Generator().manual_seed(heads.head_dim)
    queries = heads.queries_per_kv
    tile_rows = max(1, TILE_ROWS // queries) * queries
    candidates = sorted({*range(1, 17), 24, 32, 48, queries, tile_rows} - set(range(tile_rows + 1, TILE_ROWS + 1)))
    cases = []
    for length in (64, 192, 512, 768):
        k = torch.randn(3, heads.num_kv_heads, length, heads.head_dim, generator=generator)
        v = torch.randn(3, heads.num_kv_heads, length, heads.head_dim, generator=generator) * 100
        order = torch.randperm(length // 2, generator=generator)
        k[:, :, length // 2 :] = k[:, :, order]
        v[:, :, length // 2 :] = -v[:, :, order]
        q = torch.randn(3, heads.num_kv_heads, tile_rows, heads.head_dim, generator=generator)
        cases.append((q.to(dtype), k.to(dtype), v.to(dtype)))

    def same(height: int) -> bool:
        for q, k, v in cases:
            mask = torch.ones(q.shape[0], 1, tile_rows, k.shape[2], dtype=torch.bool)
            whole = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            for batch in (1, 3):
                part = F.scaled_dot_product_attention(
                    q[:batch, :, :height].contiguous(), k[:batch], v[:batch], attn_mask=mask[:batch, :, :height]
                )
                if not torch.equal(part, whole[:batch, :, :height]):
                    return False
        return True

    least = tile_rows
    for height in reversed(candidates):
        if not same(height):
            break
        least = height
    return least


def rope(x_THD: Tensor, cos_TD: Tensor, signed_sin_TD: Tensor) -> Tensor:
    """As the reference, with the halves swapped by one roll and the sum fused: three passes instead of five."""
    x = x_THD.float()
    rolled = x.roll(x.shape[-1] // 2, dims=-1)
    return torch.addcmul(x * cos_TD[:, None], rolled, signed_sin_TD[:, None]).to(x_THD.dtype)


def write_kv(kv_BS2GD: Tensor, kv_T2GD: Tensor, slots_T: Tensor) -> None:
    """One scatter of rows."""
    kv_BS2GD.flatten(0, 1).index_copy_(0, slots_T, kv_T2GD)


def rope_and_write_kv(
    qkv_TX: Tensor,
    norms: tuple[Tensor, Tensor, float] | None,
    rotary: tuple[Tensor, Tensor],
    kv_BS2GD: Tensor,
    slots_T: Tensor,
) -> Tensor:
    """As the reference, Q and K rotated together."""
    G, D = kv_BS2GD.shape[3:]
    qkv_TXD = qkv_TX.view(qkv_TX.shape[0], -1, D)
    H = qkv_TXD.shape[1] - 2 * G
    qk_TXD = qkv_TXD[:, : H + G]
    if norms is not None:
        q_norm, k_norm, eps = norms
        qk_TXD = torch.cat([rms_norm(qk_TXD[:, :H], q_norm, eps), rms_norm(qk_TXD[:, H:], k_norm, eps)], dim=1)
    qk_TXD = rope(qk_TXD, *rotary)
    write_kv(kv_BS2GD, torch.stack([qk_TXD[:, H:], qkv_TXD[:, H + G :]], dim=1), slots_T)
    return qk_TXD[:, :H]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As the reference, in place: torch's own is made of twice the calls, which is what few rows pay for."""
    x32 = x.float() if x.dtype != torch.float32 else x.clone()
    norm = torch.linalg.vector_norm(x32, dim=-1, keepdim=True)
    scale = norm.square_().mul_(1 / x.shape[-1]).add_(eps).rsqrt_()
    return x32.mul_(scale).mul_(weight).to(x.dtype)


def silu_mul(gate_up_T2F: Tensor) -> Tensor:
    """As the reference, in slices that keep it row-invariant."""
    return _sliced(reference.silu_mul, gate_up_T2F, gate_up_T2F.shape[1] // 2)


def gelu_mul(gate_up_T2F: Tensor) -> Tensor:
    """As the reference, in slices that keep it row-invariant."""
    return _sliced(reference.gelu_mul, gate_up_T2F, gate_up_T2F.shape[1] // 2)


def gelu(x_TF: Tensor) -> Tensor:
    """As the reference, in slices that keep it row-invariant."""
    return _sliced(reference.gelu, x_TF, x_TF.shape[1])


def _sliced(op: Callable[[Tensor], Tensor], x_TX: Tensor, width: int) -> Tensor:
    """width: of a row of the result"""
    slices = list(elementwise_slices(x_TX.shape[0], width, torch.get_num_threads()))
    if len(slices) <= 1:
        return op(x_TX)
    return torch.cat([op(x_TX[start:stop]) for start, stop in slices])


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """One call, which computes in float32 and every row by itself."""
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def span_attention(qkv_TX: Tensor, query_starts: Sequence[int], num_heads: int) -> Tensor:
    """A call of flash attention for each request, over a copy: where its rows lie must not show either."""
    head_dim = qkv_TX.shape[1] // (3 * num_heads)
    q_THD, k_THD, v_THD = qkv_TX.view(-1, 3, num_heads, head_dim).unbind(1)
    out_THD = torch.empty_like(q_THD, memory_format=torch.contiguous_format)
    for start, stop in itertools.pairwise(query_starts):
        q, k, v = (x[None, start:stop].transpose(1, 2).contiguous() for x in (q_THD, k_THD, v_THD))
        out_THD[start:stop] = F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
    return out_THD
