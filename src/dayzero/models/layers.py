"""The few parts that families share: rotary tables, fused projections, and the attention of one layer."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dayzero.errors import UnsupportedModel
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.registry import AttentionPlan, Kernels, LinearWeight
from dayzero.models.family import Config

Take = Callable[[str], Tensor]  # a named tensor of the checkpoint, in the dtype of the model


@dataclass(frozen=True, slots=True)
class Rotary:
    """cos and signed sin for every position, float32 [max_context, D]; see the `rope` op."""

    cos: Tensor
    signed_sin: Tensor

    def at(self, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos[positions_T], self.signed_sin[positions_T]


def rotary(frequencies: Tensor, max_context: int) -> Rotary:
    """Tables from the D/2 angular frequencies (radians per position)."""
    angles = torch.outer(torch.arange(max_context, dtype=torch.float32), frequencies.float())
    cos, sin = angles.cos(), angles.sin()
    return Rotary(torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1))


def rope_frequencies(theta: float, head_dim: int, scaling: Config | None) -> Tensor:
    """The D/2 frequencies of a config: plain, linear, Llama 3's piecewise scaling, or that scaling computed before.

    Source of Llama 3's: its reference code; wavelengths beyond the original context are stretched by `factor`, short
    ones kept, those between interpolated. A GGUF file carries the outcome, as factors.
    """
    frequencies: Tensor = 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim))
    if scaling is None:
        return frequencies
    kind = scaling["rope_type"]
    if kind == "linear":
        return frequencies / float(scaling["factor"])
    if kind == "factors":
        return frequencies / torch.tensor(scaling["factors"])
    if kind != "llama3":
        raise UnsupportedModel(f"rope scaling not supported: {kind}", hint="known: default, linear, llama3")
    factor, original = float(scaling["factor"]), float(scaling["original_max_position_embeddings"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    wavelengths = 2 * math.pi / frequencies
    smooth = ((original / wavelengths - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * frequencies / factor + smooth * frequencies


@dataclass(frozen=True, slots=True)
class Projections:
    """The attention weights of one layer: Q, K and V in one product."""

    qkv: LinearWeight
    qkv_bias: Tensor | None
    out: LinearWeight
    q_norm: Tensor | None = None  # [D], per head; None: none
    k_norm: Tensor | None = None


@dataclass(frozen=True, slots=True)
class GatedMLP:
    """The feed-forward weights of one layer: gate and up in one product."""

    gate_up: LinearWeight
    down: LinearWeight


def take_projections(prefix: str, take: Take, kernels: Kernels, *, bias: bool, norms: bool) -> Projections:
    """Read `<prefix>.{q,k,v,o}_proj` and what belongs to them."""
    qkv = torch.cat([take(f"{prefix}.{x}_proj.weight") for x in "qkv"])
    return Projections(
        qkv=kernels.prepare_linear(qkv),
        qkv_bias=torch.cat([take(f"{prefix}.{x}_proj.bias") for x in "qkv"]) if bias else None,
        out=kernels.prepare_linear(take(f"{prefix}.o_proj.weight")),
        q_norm=take(f"{prefix}.q_norm.weight") if norms else None,
        k_norm=take(f"{prefix}.k_norm.weight") if norms else None,
    )


def take_mlp(prefix: str, take: Take, kernels: Kernels) -> GatedMLP:
    """Read `<prefix>.{gate,up,down}_proj`."""
    gate_up = torch.cat([take(f"{prefix}.{x}_proj.weight") for x in ("gate", "up")])
    return GatedMLP(kernels.prepare_linear(gate_up), kernels.prepare_linear(take(f"{prefix}.down_proj.weight")))


@dataclass(frozen=True, slots=True)
class Attended:
    """The parts of a step that the attention of one layer needs."""

    cos_TD: Tensor
    signed_sin_TD: Tensor
    slots_T: Tensor
    plan: AttentionPlan


def attend(
    x_TE: Tensor,
    w: Projections,
    at: Attended,
    kv_BS2GD: Tensor,
    heads: HeadLayout,
    kernels: Kernels,
    *,
    eps: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """[T, E]: project, rotate, store K and V, read them as stored, project back. `eps` is that of the Q and K norms."""
    H, G, D = heads.num_heads, heads.num_kv_heads, heads.head_dim
    qkv_TXD = kernels.linear(x_TE, w.qkv, w.qkv_bias).view(-1, H + 2 * G, D)
    qk_TXD = qkv_TXD[:, : H + G]
    if w.q_norm is not None and w.k_norm is not None:
        q_THD = kernels.rms_norm(qk_TXD[:, :H], w.q_norm, eps)
        k_TGD = kernels.rms_norm(qk_TXD[:, H:], w.k_norm, eps)
        qk_TXD = torch.cat([q_THD, k_TGD], dim=1)
    qk_TXD = kernels.rope(qk_TXD, at.cos_TD, at.signed_sin_TD)
    kv_T2GD = torch.stack([qk_TXD[:, H:], qkv_TXD[:, H + G :]], dim=1)
    kernels.write_kv(kv_BS2GD, kv_T2GD, at.slots_T)
    o_THD = kernels.paged_attention(qk_TXD[:, :H], kv_BS2GD, at.plan, scale)
    return kernels.linear(o_THD.flatten(1), w.out)
