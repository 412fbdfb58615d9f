"""Llama: SmolLM2, Llama 3.x and all that share their blocks. Source: arXiv 2407.21783; Hugging Face `llama`.

x += attention(rms_norm(x));  x += down(silu(gate) * up) of rms_norm(x)
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """E `hidden_size`, F `intermediate_size`, V `vocab_size`. The switches are what qwen2 and qwen3 change."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    heads: HeadLayout
    vocab_size: int
    max_context: int
    norm_eps: float
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    tied_head: bool
    qkv_bias: bool = False
    qk_norm: bool = False


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    attention_norm: Tensor
    attention: Projections
    mlp_norm: Tensor
    mlp: GatedMLP


@dataclass(frozen=True, slots=True)
class LlamaWeights:
    shape: LlamaShape
    embedding: Tensor
    layers: tuple[LlamaLayer, ...]
    final_norm: Tensor
    head: LinearWeight
    rotary: Rotary


def parse(config: Config) -> LlamaShape:
    """Read a `llama` config."""
    if config["attention_bias"] or config["mlp_bias"]:
        raise UnsupportedModel("llama with attention or mlp biases is not supported", hint="use a model without them")
    return shape_of(config)


def shape_of(config: Config, *, qkv_bias: bool = False, qk_norm: bool = False) -> LlamaShape:
    """The fields that llama, qwen2 and qwen3 share."""
    if config["hidden_act"] != "silu":
        raise UnsupportedModel(f"activation not supported: {config['hidden_act']}", hint="known: silu")
    return LlamaShape(
        num_layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        heads=HeadLayout(config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]),
        vocab_size=config["vocab_size"],
        max_context=config["max_position_embeddings"],
        norm_eps=config["rms_norm_eps"],
        rope_theta=config["rope_theta"],
        rope_scaling=config["rope_scaling"],
        tied_head=bool(config["tie_word_embeddings"]),
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
    )


def groups(shape: LlamaShape, head_bytes: int) -> tuple[CacheGroup, ...]:
    """Every layer reads everything."""
    per_layer = 2 * shape.heads.num_kv_heads * head_bytes
    layers = tuple(range(shape.num_layers))
    return (CacheGroup(kind=CacheKind.FULL, layers=layers, bytes_per_token=per_layer * len(layers)),)


def build(shape: LlamaShape, take: Take) -> LlamaWeights:
    """Weights as the kernels want them. A tied head is packed from the embedding, which lookup needs as it is."""
    embedding = take("model.embed_tokens.weight")
    frequencies = rope_frequencies(shape.rope_theta, shape.heads.head_dim, shape.rope_scaling)
    return LlamaWeights(
        shape=shape,
        head=take.linear("model.embed_tokens.weight" if shape.tied_head else "lm_head.weight"),  # the largest, first
        embedding=embedding,
        layers=tuple(
            LlamaLayer(
                attention_norm=take(f"{prefix}.input_layernorm.weight"),
                attention=take_projections(f"{prefix}.self_attn", take, bias=shape.qkv_bias, norms=shape.qk_norm),
                mlp_norm=take(f"{prefix}.post_attention_layernorm.weight"),
                mlp=take_mlp(f"{prefix}.mlp", take),
            )
            for prefix in (f"model.layers.{i}" for i in range(shape.num_layers))
        ),
        final_norm=take("model.norm.weight"),
        rotary=rotary(frequencies, shape.max_context),
    )


def forward(w: LlamaWeights, step: Step, kv: KVLayers, kernels: Kernels, taps: Sequence[int] = ()) -> Hidden:
    """One step through all layers."""
    shape = w.shape
    at = Attended(w.rotary.at(step.positions, kernels), step.slots[0], step.plans[0])
    x_TE = kernels.embedding(step.tokens, w.embedding)
    tapped = []
    for index, layer in enumerate(w.layers):
        h_TE = kernels.rms_norm(x_TE, layer.attention_norm, shape.norm_eps)
        x_TE = x_TE + attend(h_TE, layer.attention, at, kv.layer(index), kernels, eps=shape.norm_eps)
        h_TE = kernels.rms_norm(x_TE, layer.mlp_norm, shape.norm_eps)
        x_TE = x_TE + kernels.linear(kernels.silu_mul(kernels.linear(h_TE, layer.mlp.gate_up)), layer.mlp.down)
        if index in taps:
            tapped.append(x_TE)
    return Hidden(kernels.rms_norm(x_TE[step.sample_at], w.final_norm, shape.norm_eps), tuple(tapped))


def logits(w: LlamaWeights, hidden_NE: Tensor, kernels: Kernels) -> Tensor:
    """[N, V]."""
    return kernels.linear(hidden_NE, w.head)


def tensors(shape: LlamaShape) -> dict[str, TensorSpec]:
    """The checkpoint, in Hugging Face's names."""
    E, F, V = shape.hidden_size, shape.intermediate_size, shape.vocab_size
    H, G, D = shape.heads.num_heads, shape.heads.num_kv_heads, shape.heads.head_dim
    table = {
        "model.embed_tokens.weight": TensorSpec((V, E), "column"),
        "model.norm.weight": TensorSpec((E,)),
    }
    if not shape.tied_head:
        table["lm_head.weight"] = TensorSpec((V, E), "column")
    for i in range(shape.num_layers):
        layer = f"model.layers.{i}"
        table |= {
            f"{layer}.input_layernorm.weight": TensorSpec((E,)),
            f"{layer}.self_attn.q_proj.weight": TensorSpec((H * D, E), "column"),
            f"{layer}.self_attn.k_proj.weight": TensorSpec((G * D, E), "column"),
            f"{layer}.self_attn.v_proj.weight": TensorSpec((G * D, E), "column"),
            f"{layer}.self_attn.o_proj.weight": TensorSpec((E, H * D), "row"),
            f"{layer}.post_attention_layernorm.weight": TensorSpec((E,)),
            f"{layer}.mlp.gate_proj.weight": TensorSpec((F, E), "column"),
            f"{layer}.mlp.up_proj.weight": TensorSpec((F, E), "column"),
            f"{layer}.mlp.down_proj.weight": TensorSpec((E, F), "row"),
        }
        if shape.qkv_bias:
            table |= {
                f"{layer}.self_attn.{x}_proj.bias": TensorSpec((n * D,), "column")
                for x, n in (("q", H), ("k", G), ("v", G))
            }
        if shape.qk_norm:
            table |= {f"{layer}.self_attn.{x}_norm.weight": TensorSpec((D,)) for x in "qk"}
    return table


LLAMA = Family(name="llama", parse=parse, tensors=tensors, groups=groups, build=build, forward=forward, logits=logits)
