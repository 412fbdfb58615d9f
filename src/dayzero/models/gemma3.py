"""Gemma 3, text: norms before and after each block, five windowed layers to one full, two rotary bases.

    x += norm(attention(norm(x)));  x += norm(down(gelu(gate) * up) of norm(x))

Source: arXiv 2503.19786; Hugging Face `gemma3_text`. Norm weights are stored as w for a factor of 1 + w. The embedding
is scaled by sqrt(E), rounded to the model's dtype as the reference does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dayzero.errors import UnsupportedModel
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.registry import Kernels, LinearWeight
from dayzero.kv.groups import CacheGroup, CacheKind
from dayzero.models.family import Config, Family, Take, TensorSpec
from dayzero.models.layers import (
    Attended,
    GatedMLP,
    Projections,
    Rotary,
    attend,
    rope_frequencies,
    rotary,
    take_mlp,
    take_projections,
)
from dayzero.models.step import Hidden, KVLayers, Step

FULL, WINDOW = 0, 1  # places of the two cache groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemma3Shape:
    """`is_full` says for each layer whether it reads everything."""

    is_full: tuple[bool, ...]
    window: int
    hidden_size: int
    intermediate_size: int
    heads: HeadLayout
    vocab_size: int
    max_context: int
    norm_eps: float
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    local_rope_theta: float
    attention_scale: float
    tied_head: bool


@dataclass(frozen=True, slots=True)
class Gemma3Layer:
    attention_norm: Tensor
    attention: Projections
    after_attention_norm: Tensor
    mlp_norm: Tensor
    mlp: GatedMLP
    after_mlp_norm: Tensor


@dataclass(frozen=True, slots=True)
class Gemma3Weights:
    shape: Gemma3Shape
    embedding: Tensor
    embedding_scale: float  # as the dtype of the embedding holds it
    layers: tuple[Gemma3Layer, ...]
    final_norm: Tensor
    head: LinearWeight
    rotary: Rotary
    local_rotary: Rotary


def parse(config: Config) -> Gemma3Shape:
    """Read a `gemma3_text` config."""
    if config.get("final_logit_softcapping") or config.get("attn_logit_softcapping"):
        raise UnsupportedModel("gemma3 with soft-capped logits is not supported", hint="published models have none")
    if config.get("use_bidirectional_attention"):
        raise UnsupportedModel("bidirectional gemma3 is not supported", hint="use a causal model")
    if config["hidden_act"] != "gelu_pytorch_tanh":
        raise UnsupportedModel(f"activation not supported: {config['hidden_act']}", hint="known: gelu_pytorch_tanh")
    return Gemma3Shape(
        is_full=tuple(kind == "full_attention" for kind in config["layer_types"]),
        window=config["sliding_window"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        heads=HeadLayout(config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]),
        vocab_size=config["vocab_size"],
        max_context=config["max_position_embeddings"],
        norm_eps=config["rms_norm_eps"],
        rope_theta=config["rope_theta"],
        rope_scaling=config["rope_scaling"],
        local_rope_theta=config["rope_local_base_freq"],
        attention_scale=1 / math.sqrt(config["query_pre_attn_scalar"]),
        tied_head=bool(config["tie_word_embeddings"]),
    )


def groups(shape: Gemma3Shape, head_bytes: int) -> tuple[CacheGroup, ...]:
    """Full layers and windowed layers, in the order of FULL and WINDOW."""
    per_layer = 2 * shape.heads.num_kv_heads * head_bytes
    full = tuple(i for i, is_full in enumerate(shape.is_full) if is_full)
    windowed = tuple(i for i, is_full in enumerate(shape.is_full) if not is_full)
    return (
        CacheGroup(kind=CacheKind.FULL, layers=full, bytes_per_token=per_layer * len(full)),
        CacheGroup(
            kind=CacheKind.WINDOW, layers=windowed, bytes_per_token=per_layer * len(windowed), window=shape.window
        ),
    )


def build(shape: Gemma3Shape, take: Take) -> Gemma3Weights:
    """Weights as the kernels want them; norm weights as factors, in float32."""

    def factor(name: str) -> Tensor:
        return 1.0 + take(name).float()

    def layer(prefix: str) -> Gemma3Layer:
        attention = take_projections(f"{prefix}.self_attn", take, bias=False, norms=False)
        return Gemma3Layer(
            attention_norm=factor(f"{prefix}.input_layernorm.weight"),
            attention=Projections(
                attention.qkv,
                None,
                attention.out,
                factor(f"{prefix}.self_attn.q_norm.weight"),
                factor(f"{prefix}.self_attn.k_norm.weight"),
            ),
            after_attention_norm=factor(f"{prefix}.post_attention_layernorm.weight"),
            mlp_norm=factor(f"{prefix}.pre_feedforward_layernorm.weight"),
            mlp=take_mlp(f"{prefix}.mlp", take),
            after_mlp_norm=factor(f"{prefix}.post_feedforward_layernorm.weight"),
        )

    embedding = take("model.embed_tokens.weight")
    D = shape.heads.head_dim
    return Gemma3Weights(
        shape=shape,
        head=take.linear("model.embed_tokens.weight" if shape.tied_head else "lm_head.weight"),  # the largest, first
        embedding=embedding,
        embedding_scale=embedding.new_tensor(math.sqrt(shape.hidden_size)).item(),
        layers=tuple(layer(f"model.layers.{i}") for i in range(len(shape.is_full))),
        final_norm=factor("model.norm.weight"),
        rotary=rotary(rope_frequencies(shape.rope_theta, D, shape.rope_scaling), shape.max_context),
        local_rotary=rotary(rope_frequencies(shape.local_rope_theta, D, None), shape.max_context),
    )


def forward(w: Gemma3Weights, step: Step, kv: KVLayers, kernels: Kernels, taps: Sequence[int] = ()) -> Hidden:
    """One step through all layers."""
    shape, eps = w.shape, w.shape.norm_eps
    full = Attended(w.rotary.at(step.positions, kernels), step.slots[FULL], step.plans[FULL])
    windowed = Attended(w.local_rotary.at(step.positions, kernels), step.slots[WINDOW], step.plans[WINDOW])
    x_TE = kernels.embedding(step.tokens, w.embedding, w.embedding_scale)
    tapped = []
    for index, layer in enumerate(w.layers):
        at = full if shape.is_full[index] else windowed
        h_TE = kernels.rms_norm(x_TE, layer.attention_norm, eps)
        h_TE = attend(h_TE, layer.attention, at, kv.layer(index), kernels, eps=eps, scale=shape.attention_scale)
        x_TE = x_TE + kernels.rms_norm(h_TE, layer.after_attention_norm, eps)
        h_TE = kernels.rms_norm(x_TE, layer.mlp_norm, eps)
        h_TE = kernels.linear(kernels.gelu_mul(kernels.linear(h_TE, layer.mlp.gate_up)), layer.mlp.down)
        x_TE = x_TE + kernels.rms_norm(h_TE, layer.after_mlp_norm, eps)
        if index in taps:
            tapped.append(x_TE)
    return Hidden(kernels.rms_norm(x_TE[step.sample_at], w.final_norm, eps), tuple(tapped))


def logits(w: Gemma3Weights, hidden_NE: Tensor, kernels: Kernels) -> Tensor:
    """[N, V]."""
    return kernels.linear(hidden_NE, w.head)


def tensors(shape: Gemma3Shape) -> dict[str, TensorSpec]:
    """The checkpoint, in Hugging Face's names."""
    E, F, V = shape.hidden_size, shape.intermediate_size, shape.vocab_size
    H, G, D = shape.heads.num_heads, shape.heads.num_kv_heads, shape.heads.head_dim
    table = {
        "model.embed_tokens.weight": TensorSpec((V, E), "column"),
        "model.norm.weight": TensorSpec((E,)),
    }
    if not shape.tied_head:
        table["lm_head.weight"] = TensorSpec((V, E), "column")
    for i in range(len(shape.is_full)):
        layer = f"model.layers.{i}"
        table |= {
            f"{layer}.input_layernorm.weight": TensorSpec((E,)),
            f"{layer}.self_attn.q_proj.weight": TensorSpec((H * D, E), "column"),
            f"{layer}.self_attn.k_proj.weight": TensorSpec((G * D, E), "column"),
            f"{layer}.self_attn.v_proj.weight": TensorSpec((G * D, E), "column"),
            f"{layer}.self_attn.o_proj.weight": TensorSpec((E, H * D), "row"),
            f"{layer}.self_attn.q_norm.weight": TensorSpec((D,)),
            f"{layer}.self_attn.k_norm.weight": TensorSpec((D,)),
            f"{layer}.post_attention_layernorm.weight": TensorSpec((E,)),
            f"{layer}.pre_feedforward_layernorm.weight": TensorSpec((E,)),
            f"{layer}.mlp.gate_proj.weight": TensorSpec((F, E), "column"),
            f"{layer}.mlp.up_proj.weight": TensorSpec((F, E), "column"),
            f"{layer}.mlp.down_proj.weight": TensorSpec((E, F), "row"),
            f"{layer}.post_feedforward_layernorm.weight": TensorSpec((E,)),
        }
    return table


GEMMA3 = Family(name="gemma3", parse=parse, tensors=tensors, groups=groups, build=build, forward=forward, logits=logits)
