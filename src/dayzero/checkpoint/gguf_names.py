"""GGUF metadata and tensor names in Hugging Face's vocabulary, one table per architecture.

A name without an entry is refused: a tensor that nobody reads is a model that nobody meant.
"""

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dayzero.checkpoint.config import Config, check
from dayzero.checkpoint.gguf import GgufArray, GgufFile, GgufTensor
from dayzero.checkpoint.tensor import PlusOne, RotaryRows, StoredTensor, Transform
from dayzero.errors import CheckpointError, UnsupportedModel

_BLOCK = re.compile(r"blk\.(0|[1-9]\d{0,4})\.([a-z_]+)\.(weight|bias)")

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_ROTARY_FACTORS = "rope_freqs.weight"  # [D / 2], what each rotary frequency is divided by: llama 3's scaling
_PRE_NORM = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_GEMMA3 = {
    **_PRE_NORM,
    **_HEAD_NORMS,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """How one `general.architecture` maps.

    parts       `blk.N.<part>` -> `model.layers.N.<name>`
    rotary      q and k rows were reordered by the converter
    plus_one    norms are stored as 1 + w
    extend      adds the config keys that only this family has
    """

    parts: Mapping[str, str]
    rotary: bool = False
    plus_one: bool = False
    extend: Callable[[GgufFile, Config], Config] | None = None


def read_config(file: GgufFile) -> Config:
    """The canonical config keys of a GGUF file; see `config` for what they mean."""
    arch = file.text("general.architecture")
    architecture = _architecture(file, arch)
    names = {tensor.name: tensor.shape for tensor in file.tensors}
    if "token_embd.weight" not in names:
        raise CheckpointError(f"missing tensor in {file.path}: token_embd.weight")
    hidden = file.integer(f"{arch}.embedding_length")
    heads = file.integer(f"{arch}.attention.head_count")
    if heads < 1 or hidden < 1:
        raise CheckpointError(f"no heads in {file.path}: {heads} heads, {hidden} wide")
    head_dim = file.integer(
        f"{arch}.attention.key_length", file.integer(f"{arch}.rope.dimension_count", hidden // heads)
    )
    value_dim = file.integer(f"{arch}.attention.value_length", head_dim)
    if value_dim != head_dim:
        raise UnsupportedModel(f"heads of {file.path}: keys {head_dim} wide, values {value_dim}")
    config: Config = {
        "model_type": arch,
        "vocab_size": names["token_embd.weight"][0],
        "hidden_size": hidden,
        "intermediate_size": file.integer(f"{arch}.feed_forward_length"),
        "num_hidden_layers": file.integer(f"{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.integer(f"{arch}.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": file.number(f"{arch}.attention.layer_norm_rms_epsilon"),
        "rope_theta": file.number(f"{arch}.rope.freq_base", 10_000.0),
        "rope_scaling": _rope_scaling(file, arch, head_dim),
        "max_position_embeddings": file.integer(f"{arch}.context_length"),
        "tie_word_embeddings": "output.weight" not in names,
        "attention_bias": "blk.0.attn_q.bias" in names,
        "mlp_bias": "blk.0.ffn_gate.bias" in names,
        "hidden_act": "silu",
        "sliding_window": None,
    }
    check(config, file.path)
    return architecture.extend(file, config) if architecture.extend else config


def read_tensors(file: GgufFile, config: Config) -> dict[str, StoredTensor]:
    """Every tensor of the file under its Hugging Face name; rotary factors are in the config."""
    architecture = _architecture(file, file.text("general.architecture"))
    result: dict[str, StoredTensor] = {}
    for tensor in file.tensors:
        if tensor.name == _ROTARY_FACTORS:
            continue
        name, transform = _rename(file, tensor, architecture, config)
        result[name] = StoredTensor(name, tensor.shape, tensor.format, file.data(tensor), transform)
    return result


def _architecture(file: GgufFile, name: str) -> Architecture:
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise UnsupportedModel(
            f"unknown architecture of {file.path}: {name}", hint=f"known in GGUF files: {', '.join(ARCHITECTURES)}"
        )
    return architecture


def _rename(
    file: GgufFile, tensor: GgufTensor, architecture: Architecture, config: Config
) -> tuple[str, Transform | None]:
    plus_one = PlusOne() if architecture.plus_one and tensor.name.endswith("norm.weight") else None
    if tensor.name in _TOP:
        return _TOP[tensor.name], plus_one
    match = _BLOCK.fullmatch(tensor.name)
    if match is None or match[2] not in architecture.parts:
        raise UnsupportedModel(
            f"unknown tensor in {file.path}: {tensor.name}",
            hint=f"not part of a {config['model_type']} model as we know it; mixtures of experts are not supported",
        )
    name = f"model.layers.{match[1]}.{architecture.parts[match[2]]}.{match[3]}"
    if architecture.rotary and match[2] in ("attn_q", "attn_k"):
        num_heads = config["num_attention_heads" if match[2] == "attn_q" else "num_key_value_heads"]
        if tensor.shape[0] % (2 * num_heads):
            raise CheckpointError(
                f"rows of tensor {tensor.name} in {file.path}: {tensor.shape[0]} for {num_heads} heads"
            )
        return name, RotaryRows(num_heads)
    return name, plus_one


def _rope_scaling(file: GgufFile, arch: str, head_dim: int) -> Config | None:
    kind = file.text(f"{arch}.rope.scaling.type", "none")
    factors = next((tensor for tensor in file.tensors if tensor.name == _ROTARY_FACTORS), None)
    if factors is not None:
        if kind != "none":
            raise UnsupportedModel(f"rope scaling of {file.path}: {kind} on top of the factors in {_ROTARY_FACTORS}")
        return {"rope_type": "factors", "factors": _rotary_factors(file, factors, head_dim)}
    if kind == "none":
        return None
    scaling: Config = {"rope_type": kind, "factor": file.number(f"{arch}.rope.scaling.factor")}
    original = f"{arch}.rope.scaling.original_context_length"
    if original in file.values:
        scaling["original_max_position_embeddings"] = file.integer(original)
    return scaling


def _rotary_factors(file: GgufFile, tensor: GgufTensor, head_dim: int) -> list[float]:
    """In float32 whatever the model's dtype: an error in a frequency grows with the position."""
    if tensor.format != "F32" or tensor.shape != (head_dim // 2,):
        raise CheckpointError(
            f"tensor {tensor.name} in {file.path}: {tensor.format} {list(tensor.shape)} (wanted: F32 [{head_dim // 2}])"
        )
    factors = struct.unpack(f"<{head_dim // 2}f", file.data(tensor))
    if not all(math.isfinite(factor) and factor > 0 for factor in factors):
        raise CheckpointError(f"tensor {tensor.name} in {file.path}: a factor is not a positive number")
    return list(factors)


def _gemma3(file: GgufFile, config: Config) -> Config:
    """The window, which layers use it, and the two rotary bases; llama.cpp has the same constants in code."""
    num_layers = config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    # the 27B model alone scales queries by its width per head, which is not its head width
    scalar = config["hidden_size"] / heads if num_layers == 62 else config["head_dim"]
    return config | {
        "hidden_act": "gelu_pytorch_tanh",
        "sliding_window": file.integer("gemma3.attention.sliding_window"),
        "layer_types": _layer_types(file, num_layers),
        "rope_theta": file.number("gemma3.rope.freq_base", 1_000_000.0),
        "rope_local_base_freq": file.number("gemma3.rope.freq_base_swa", 10_000.0),
        "query_pre_attn_scalar": scalar,
    }


def _layer_types(file: GgufFile, num_layers: int) -> list[str]:
    """`sliding_attention` or `full_attention` for each layer; every sixth is full unless the file says otherwise."""
    key = "gemma3.attention.sliding_window_pattern"
    if isinstance(file.values.get(key), GgufArray):
        windowed = file.numbers(key, bool)
    else:
        period = file.integer(key, 6)
        if period < 1:
            raise CheckpointError(f"wrong value in {file.path}: {key} is {period} (wanted: 1 or more)")
        windowed = [(layer + 1) % period != 0 for layer in range(num_layers)]
    if len(windowed) != num_layers:
        raise CheckpointError(f"wrong length in {file.path}: {key} has {len(windowed)} for {num_layers} layers")
    return ["sliding_attention" if is_windowed else "full_attention" for is_windowed in windowed]


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(_PRE_NORM, rotary=True),
    "qwen2": Architecture(_PRE_NORM),
    "qwen3": Architecture({**_PRE_NORM, **_HEAD_NORMS}),
    "gemma3": Architecture(_GEMMA3, plus_one=True, extend=_gemma3),
}
