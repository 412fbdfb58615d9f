"""BERT: MiniLM, BGE, E5 and all that share their blocks. Every token sees every other. Source: arXiv 1810.04805.

x = norm(x + attention(x));  x = norm(x + down(gelu(up(x))))

An encoder: it keeps no KV, and what it makes of a text is the hidden states of its tokens. All tokens are of the first
type. Products, attention and gelu are in the model's dtype, the sums between them and the norms in float32: with these
in bfloat16 too, the least cosine of MiniLM's embeddings with those in float32 was below 0.9999 (docs/decisions/0022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dayzero.errors import UnsupportedModel
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.registry import Kernels, LinearWeight
from dayzero.models.family import Config, Family, Take, TensorSpec
from dayzero.models.step import Hidden, KVLayers, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    """E `hidden_size`, F `intermediate_size`, V `vocab_size`, P `num_positions`, of which `max_context` are served."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    heads: HeadLayout
    vocab_size: int
    max_context: int
    num_positions: int
    num_types: int
    norm_eps: float


@dataclass(frozen=True, slots=True)
class Dense:
    """A product and its bias."""

    weight: LinearWeight
    bias: Tensor


@dataclass(frozen=True, slots=True)
class Norm:
    """float32 [E] each."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class BertLayer:
    qkv: Dense
    out: Dense
    attention_norm: Norm
    up: Dense
    down: Dense
    mlp_norm: Norm


@dataclass(frozen=True, slots=True)
class BertWeights:
    """positions: float32 [P, E], the embedding of the first type added"""

    shape: BertShape
    embedding: Tensor
    positions: Tensor
    embedding_norm: Norm
    layers: tuple[BertLayer, ...]


def parse(config: Config) -> BertShape:
    """Read a `bert` config."""
    for key, known in (("hidden_act", "gelu"), ("position_embedding_type", "absolute"), ("is_decoder", False)):
        if config[key] != known:
            raise UnsupportedModel(f"bert with {key} {config[key]} is not supported", hint=f"known: {known}")
    heads = config["num_attention_heads"]
    positions = config["max_position_embeddings"]
    return BertShape(
        num_layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        heads=HeadLayout(heads, heads, config["head_dim"], is_causal=False),
        vocab_size=config["vocab_size"],
        max_context=min(positions, config.get("max_seq_length", positions)),
        num_positions=positions,
        num_types=config["type_vocab_size"],
        norm_eps=config["layer_norm_eps"],
    )


def build(shape: BertShape, take: Take) -> BertWeights:
    """Weights as the kernels want them."""
    types = take("embeddings.token_type_embeddings.weight")
    positions = take("embeddings.position_embeddings.weight")
    return BertWeights(
        shape=shape,
        embedding=take("embeddings.word_embeddings.weight"),
        positions=positions.float() + types[0].float(),
        embedding_norm=_take_norm("embeddings.LayerNorm", take),
        layers=tuple(_take_layer(f"encoder.layer.{i}", take) for i in range(shape.num_layers)),
    )


def _take_layer(prefix: str, take: Take) -> BertLayer:
    attention = f"{prefix}.attention"
    return BertLayer(
        qkv=_take_dense(take, *(f"{attention}.self.{x}" for x in ("query", "key", "value"))),
        out=_take_dense(take, f"{attention}.output.dense"),
        attention_norm=_take_norm(f"{attention}.output.LayerNorm", take),
        up=_take_dense(take, f"{prefix}.intermediate.dense"),
        down=_take_dense(take, f"{prefix}.output.dense"),
        mlp_norm=_take_norm(f"{prefix}.output.LayerNorm", take),
    )


def _take_dense(take: Take, *names: str) -> Dense:
    bias = torch.cat([take(f"{name}.bias") for name in names])
    return Dense(take.linear(*(f"{name}.weight" for name in names)), bias)


def _take_norm(name: str, take: Take) -> Norm:
    return Norm(take(f"{name}.weight").float(), take(f"{name}.bias").float())


def forward(w: BertWeights, step: Step, kv: KVLayers, kernels: Kernels, taps: Sequence[int] = ()) -> Hidden:
    """One step through all layers, each request whole. The norm of the last layer is the final one."""
    del kv
    shape = w.shape

    def dense(x: Tensor, d: Dense) -> Tensor:
        return kernels.linear(x.to(w.embedding.dtype), d.weight, d.bias)

    def norm(x_TE: Tensor, n: Norm) -> Tensor:
        return kernels.layer_norm(x_TE, n.weight, n.bias, shape.norm_eps)

    x_TE = kernels.embedding(step.tokens, w.embedding) + kernels.embedding(step.positions, w.positions)
    x_TE = norm(x_TE, w.embedding_norm)
    tapped = []
    for index, layer in enumerate(w.layers):
        o_THD = kernels.span_attention(dense(x_TE, layer.qkv), step.query_starts, shape.heads.num_heads)
        x_TE = norm(x_TE + dense(o_THD.flatten(1), layer.out), layer.attention_norm)
        x_TE = norm(x_TE + dense(kernels.gelu(dense(x_TE, layer.up)), layer.down), layer.mlp_norm)
        if index in taps:
            tapped.append(x_TE)
    return Hidden(x_TE[step.sample_at], tuple(tapped))


def tensors(shape: BertShape) -> dict[str, TensorSpec]:
    """The checkpoint, in Hugging Face's names."""
    E, F, X = shape.hidden_size, shape.intermediate_size, shape.heads.num_heads * shape.heads.head_dim
    table = {
        "embeddings.word_embeddings.weight": TensorSpec((shape.vocab_size, E), "column"),
        "embeddings.position_embeddings.weight": TensorSpec((shape.num_positions, E)),
        "embeddings.token_type_embeddings.weight": TensorSpec((shape.num_types, E)),
        "embeddings.LayerNorm.weight": TensorSpec((E,)),
        "embeddings.LayerNorm.bias": TensorSpec((E,)),
    }
    for i in range(shape.num_layers):
        layer = f"encoder.layer.{i}"
        for x in ("query", "key", "value"):
            table |= {
                f"{layer}.attention.self.{x}.weight": TensorSpec((X, E), "column"),
                f"{layer}.attention.self.{x}.bias": TensorSpec((X,), "column"),
            }
        table |= {
            f"{layer}.attention.output.dense.weight": TensorSpec((E, X), "row"),
            f"{layer}.attention.output.dense.bias": TensorSpec((E,)),
            f"{layer}.attention.output.LayerNorm.weight": TensorSpec((E,)),
            f"{layer}.attention.output.LayerNorm.bias": TensorSpec((E,)),
            f"{layer}.intermediate.dense.weight": TensorSpec((F, E), "column"),
            f"{layer}.intermediate.dense.bias": TensorSpec((F,), "column"),
            f"{layer}.output.dense.weight": TensorSpec((E, F), "row"),
            f"{layer}.output.dense.bias": TensorSpec((E,)),
            f"{layer}.output.LayerNorm.weight": TensorSpec((E,)),
            f"{layer}.output.LayerNorm.bias": TensorSpec((E,)),
        }
    return table


BERT = Family(name="bert", parse=parse, tensors=tensors, build=build, forward=forward)
