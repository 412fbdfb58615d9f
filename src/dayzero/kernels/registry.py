"""Which implementation serves each op, chosen once at start-up into a frozen table.

No per-call dispatch and no silent fallback: the table says what runs and why, and `dayzero doctor` prints it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from dayzero.core.spec import KernelChoice
from dayzero.kernels import onednn, reference
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.ops import DECODER_OPS, ENCODER_OPS, OPS


class LinearWeight(Protocol):
    """A weight as `prepare_linear` left it; only `linear` looks inside."""


class AttentionPlan(Protocol):
    """What `plan_attention` made of a step; only `paged_attention` looks inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The chosen function of every op; passed to the model, which calls nothing else.

    choices   of the ops that a model of this kind calls, and why; of references, all
    heights   that were probed, by the end of loading: part of the numerics
    """

    prepare_linear: Callable[[Tensor], LinearWeight]
    linear: Callable[..., Tensor]
    embedding: Callable[..., Tensor]
    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    rotary_at: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    rope_and_write_kv: Callable[..., Tensor]
    plan_attention: Callable[..., AttentionPlan]
    paged_attention: Callable[..., Tensor]
    silu_mul: Callable[[Tensor], Tensor]
    gelu_mul: Callable[[Tensor], Tensor]
    layer_norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    gelu: Callable[[Tensor], Tensor]
    span_attention: Callable[[Tensor, Sequence[int], int], Tensor]
    choices: tuple[KernelChoice, ...]
    heights: Callable[[], dict[str, str]]


def select(dtype: torch.dtype, heads: HeadLayout) -> Kernels:
    """Choose for this machine. Probes: the private operators of oneDNN, and the least tile of attention."""
    can_pack = dtype is torch.bfloat16 and onednn.packing_works()
    linear = onednn.Linear(dtype, packed=can_pack)
    min_rows = onednn.probe_min_rows(heads, dtype) if heads.is_causal else onednn.TILE_ROWS
    attention = onednn.Attention(heads, dtype, min_rows=min_rows)
    if can_pack:
        why_linear = "weights packed for oneDNN, calls of probed heights"
    elif dtype is torch.bfloat16:
        why_linear = "this torch build lacks oneDNN's packing operators: plain F.linear, about 1.3x slower"
    else:
        why_linear = "oneDNN packs bfloat16 only: plain F.linear, calls of probed heights"

    choices = (
        KernelChoice("linear", "onednn/packed" if can_pack else "torch", why_linear),
        KernelChoice("paged_attention", "torch/sdpa", f"query tiles of {min_rows} rows and more agree to the bit"),
        KernelChoice("rms_norm", "torch/in place", "half the passes of torch's own, row-invariant as it is"),
        KernelChoice("rotary_at", "reference", "a gather is a gather"),
        KernelChoice("rope_and_write_kv", "torch/rolled", "Q and K rotated together, in three passes; one scatter"),
        KernelChoice("embedding", "reference", "a gather is a gather"),
        KernelChoice("silu_mul", "torch/sliced", "threads share it at the ends of rows or of whole vectors"),
        KernelChoice("gelu_mul", "torch/sliced", "threads share it at the ends of rows or of whole vectors"),
        KernelChoice("layer_norm", "torch", "computes each row by itself"),
        KernelChoice("gelu", "torch/sliced", "threads share it at the ends of rows or of whole vectors"),
        KernelChoice("span_attention", "torch/sdpa", "a call for each request, which no other has a part in"),
    )
    used = {op.name for op in (DECODER_OPS if heads.is_causal else ENCODER_OPS)}

    def heights() -> dict[str, str]:
        probed = {f"{k}x{n}": ",".join(map(str, h.allowed)) for (k, n), h in sorted(linear.heights.items())}
        return probed | ({"attention": f"{min_rows}-{onednn.TILE_ROWS}"} if heads.is_causal else {})

    return Kernels(
        prepare_linear=linear.prepare,
        linear=linear.linear,
        embedding=reference.embedding,
        rms_norm=onednn.rms_norm,
        rotary_at=reference.rotary_at,
        rope_and_write_kv=onednn.rope_and_write_kv,
        plan_attention=attention.plan,
        paged_attention=attention.attend,
        silu_mul=onednn.silu_mul,
        gelu_mul=onednn.gelu_mul,
        layer_norm=onednn.layer_norm,
        gelu=onednn.gelu,
        span_attention=onednn.span_attention,
        choices=tuple(choice for choice in choices if choice.op in used),
        heights=heights,
    )


def select_reference() -> Kernels:
    """Every op as its reference: slow, differentiable, the oracle."""

    def plan(
        query_starts: Sequence[int],
        first_positions: Sequence[int],
        block_tables: Sequence[Sequence[int]],
        block_size: int,
        window: int | None,
    ) -> tuple[Any, ...]:
        del block_size  # the pool's own shape says it
        return query_starts, first_positions, block_tables, window

    def attend(q_THD: Tensor, kv_BS2GX: Tensor, plan: tuple[Any, ...], scale: float | None = None) -> Tensor:
        query_starts, first_positions, block_tables, window = plan
        return reference.paged_attention(
            q_THD, kv_BS2GX, query_starts, first_positions, block_tables, scale=scale, window=window
        )

    return Kernels(
        prepare_linear=reference.prepare_linear,
        linear=reference.linear,
        embedding=reference.embedding,
        rms_norm=reference.rms_norm,
        rotary_at=reference.rotary_at,
        rope_and_write_kv=reference.rope_and_write_kv,
        plan_attention=plan,
        paged_attention=attend,
        silu_mul=reference.silu_mul,
        gelu_mul=reference.gelu_mul,
        layer_norm=reference.layer_norm,
        gelu=reference.gelu,
        span_attention=reference.span_attention,
        choices=tuple(KernelChoice(op.name, "reference", "asked for") for op in OPS),
        heights=dict,
    )
