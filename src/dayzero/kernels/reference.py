"""The slow and obvious version of every op. It is the specification; it is differentiable; it has no tricks.

Shape letters: T tokens of a step, E model dim, F feed-forward dim, H query heads, G KV heads, D head dim,
B blocks of the pool, S slots of a block, X elements of a head as stored (`kv_format`), N output features, K input
features.
"""

import itertools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from dayzero.kernels.attention import keys_seen
from dayzero.kernels.kv_format import decode, encode, head_dim_of


def prepare_linear(weight_NK: Tensor) -> Tensor:
    """The weight as `linear` wants it. Here: as it is."""
    return weight_NK


def linear(x_TK: Tensor, weight: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """[T, N]: each row times the transposed weight."""
    return F.linear(x_TK, weight, bias_N)


def embedding(tokens_T: Tensor, table_VE: Tensor, scale: float = 1.0) -> Tensor:
    """[T, E]: the rows of the table, times a scale that the table's dtype can hold."""
    rows_TE = table_VE[tokens_T]
    return rows_TE if scale == 1.0 else rows_TE * scale


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last dimension, in float32, rounded once. Source: arXiv 1910.07467."""
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def rope(x_THD: Tensor, cos_TD: Tensor, signed_sin_TD: Tensor) -> Tensor:
    """Rotate the pairs (i, i + D/2) of each head, in float32. Source: arXiv 2104.09864, in the half-split layout.

    cos_TD         float32, the angles of the first half repeated for the second
    signed_sin_TD  float32, negative in the first half: out = x * cos + swap_halves(x) * signed_sin
    """
    x = x_THD.float()
    first, second = x.chunk(2, dim=-1)
    swapped = torch.cat([second, first], dim=-1)
    return (x * cos_TD[:, None] + swapped * signed_sin_TD[:, None]).to(x_THD.dtype)


def write_kv(kv_BS2GX: Tensor, kv_T2GD: Tensor, slots_T: Tensor) -> None:
    """Store K and V of each token in its slot (block * S + offset)."""
    kv_BS2GX.flatten(0, 1)[slots_T] = encode(kv_T2GD, kv_BS2GX.dtype)


def rotary_at(cos_PD: Tensor, signed_sin_PD: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the rotary tables [positions, D] that the tokens of a step need."""
    return cos_PD[positions_T], signed_sin_PD[positions_T]


def rope_and_write_kv(
    qkv_TX: Tensor,
    norms: tuple[Tensor, Tensor, float] | None,
    rotary: tuple[Tensor, Tensor],
    kv_BS2GX: Tensor,
    slots_T: Tensor,
) -> Tensor:
    """[T, H, D]: Q, rotated, of rows that hold the heads of Q, K and V; K, rotated, and V go to their slots.

    norms   weights [D] and epsilon of an RMS norm on each head of Q and K before the rotation; None: no norm
    rotary  cos and signed sin of each row
    """
    G, D = kv_BS2GX.shape[3], head_dim_of(kv_BS2GX)
    qkv_TXD = qkv_TX.view(qkv_TX.shape[0], -1, D)
    H = qkv_TXD.shape[1] - 2 * G
    q_THD, k_TGD, v_TGD = qkv_TXD[:, :H], qkv_TXD[:, H : H + G], qkv_TXD[:, H + G :]
    if norms is not None:
        q_norm, k_norm, eps = norms
        q_THD, k_TGD = rms_norm(q_THD, q_norm, eps), rms_norm(k_TGD, k_norm, eps)
    write_kv(kv_BS2GX, torch.stack([rope(k_TGD, *rotary), v_TGD], dim=1), slots_T)
    return rope(q_THD, *rotary)


def silu_mul(gate_up_T2F: Tensor) -> Tensor:
    """[T, F]: silu(gate) * up."""
    gate, up = gate_up_T2F.chunk(2, dim=-1)
    return F.silu(gate) * up


def gelu_mul(gate_up_T2F: Tensor) -> Tensor:
    """[T, F]: gelu(gate) * up, with the tanh form of gelu."""
    gate, up = gate_up_T2F.chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh") * up


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """(x - mean) / deviation * weight + bias over the last dimension, in float32, rounded once. arXiv 1607.06450."""
    return F.layer_norm(x.float(), weight.shape, weight.float(), bias.float(), eps).to(x.dtype)


def gelu(x: Tensor) -> Tensor:
    """x times the normal distribution at x: the exact form."""
    return F.gelu(x)


def span_attention(qkv_TX: Tensor, query_starts: Sequence[int], num_heads: int) -> Tensor:
    """[T, H, D]: each token attends to all of its own request, those behind it included; nothing is stored.

    qkv_TX        rows that hold the heads of Q, K and V
    query_starts  request r owns rows [query_starts[r], query_starts[r + 1]), and has no others
    """
    head_dim = qkv_TX.shape[1] // (3 * num_heads)
    q_THD, k_THD, v_THD = qkv_TX.float().view(-1, 3, num_heads, head_dim).unbind(1)
    requests = []
    for start, stop in itertools.pairwise(query_starts):
        q, k, v = (x[start:stop] for x in (q_THD, k_THD, v_THD))
        scores_HLM = torch.einsum("lhd,mhd->hlm", q / math.sqrt(head_dim), k)
        requests.append(torch.einsum("hlm,mhd->lhd", scores_HLM.softmax(-1), v))
    return torch.cat(requests).to(qkv_TX.dtype) if requests else q_THD.to(qkv_TX.dtype)


def paged_attention(
    q_THD: Tensor,
    kv_BS2GX: Tensor,
    query_starts: Sequence[int],
    first_positions: Sequence[int],
    block_tables: Sequence[Sequence[int]],
    scale: float | None = None,
    window: int | None = None,
) -> Tensor:
    """[T, H, D]: causal attention of each token over its own request's KV, as stored, one token at a time in float32.

    query_starts     request r owns rows [query_starts[r], query_starts[r + 1])
    first_positions  position of each request's first row
    window           a token reads the last `window` positions, its own included; None: all
    """
    block_size = kv_BS2GX.shape[1]
    rows = []
    for request, table in enumerate(block_tables):
        start, stop = query_starts[request], query_starts[request + 1]
        for row, keys in enumerate(keys_seen(first_positions[request], stop - start, window), start):
            slots = [table[place // block_size] * block_size + place % block_size for place in keys]
            rows.append(attend_row(q_THD[row], kv_BS2GX, slots, scale))
    return torch.stack(rows) if rows else q_THD.clone()


def attend_row(
    q_HD: Tensor,
    kv_BS2GX: Tensor,
    slots: Sequence[int],
    scale: float | None = None,
    biases_BGS: Tensor | None = None,
) -> Tensor:
    """[H, D]: attention of one token over the keys in these slots.

    biases  are added to the scaled scores of their keys; None: 0
    """
    H, D = q_HD.shape
    G = kv_BS2GX.shape[3]
    scale = 1 / math.sqrt(D) if scale is None else scale
    k_LGD, v_LGD = decode(kv_BS2GX.flatten(0, 1)[slots]).unbind(1)
    k_LHD, v_LHD = (x.repeat_interleave(H // G, dim=1) for x in (k_LGD, v_LGD))
    scores_HL = torch.einsum("hd,lhd->hl", q_HD.float() * scale, k_LHD)
    if biases_BGS is not None:
        scores_HL = scores_HL + biases_BGS.transpose(1, 2).flatten(0, 1)[slots].T.repeat_interleave(H // G, dim=0)
    return torch.einsum("hl,lhd->hd", scores_HL.softmax(-1), v_LHD).to(q_HD.dtype)
