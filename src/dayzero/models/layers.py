"""The few parts that families share: rotary tables, fused projections, and the attention of one layer."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dayzero.errors import UnsupportedModel
from dayzero.kernels.registry import AttentionPlan, Kernels, LinearWeight
from dayzero.models.family import Config, Take


@dataclass(frozen=True, slots=True)
class Rotary:
    """cos and signed sin for every position, float32 [max_context, D]; see the reference `rope`."""

    cos: Tensor
    signed_sin: Tensor

    def at(self, positions_T: Tensor, kernels: Kernels) -> tuple[Tensor, Tensor]:
        return kernels.rotary_at(self.cos, self.signed_sin, positions_T)


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


def take_projections(prefix: str, take: Take, *, bias: bool, norms: bool) -> Projections:
    """Read `<prefix>.{q,k,v,o}_proj` and what belongs to them."""
    return Projections(
        qkv=take.linear(*(f"{prefix}.{x}_proj.weight" for x in "qkv")),
        qkv_bias=torch.cat([take(f"{prefix}.{x}_proj.bias") for x in "qkv"]) if bias else None,
        out=take.linear(f"{prefix}.o_proj.weight"),
        q_norm=take(f"{prefix}.q_norm.weight") if norms else None,
        k_norm=take(f"{prefix}.k_norm.weight") if norms else None,
    )


def take_mlp(prefix: str, take: Take) -> GatedMLP:
    """Read `<prefix>.{gate,up,down}_proj`."""
    gate_up = take.linear(f"{prefix}.gate_proj.weight", f"{prefix}.up_proj.weight")
    return GatedMLP(gate_up, take.linear(f"{prefix}.down_proj.weight"))


@dataclass(frozen=True, slots=True)
class Attended:
    """The parts of a step that the attention of one layer needs."""

    rotary: tuple[Tensor, Tensor]
    slots_T: Tensor
    plan: AttentionPlan


def attend(
    x_TE: Tensor,
    w: Projections,
    at: Attended,
    kv_BS2GX: Tensor,
    kernels: Kernels,
    *,
    eps: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """[T, E]: project, rotate, store K and V, read them as stored, project back. `eps` is that of the Q and K norms."""
    qkv_TX = kernels.linear(x_TE, w.qkv, w.qkv_bias)
    norms = None if w.q_norm is None else (w.q_norm, w.k_norm, eps)
    q_THD = kernels.rope_and_write_kv(qkv_TX, norms, at.rotary, kv_BS2GX, at.slots_T)
    return kernels.linear(kernels.paged_attention(q_THD, kv_BS2GX, at.plan, scale).flatten(1), w.out)
