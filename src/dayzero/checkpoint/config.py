"""config.json and generation_config.json as few canonical keys, whatever version of transformers wrote them.

Keys of every known family, all present: model_type, vocab_size, hidden_size, intermediate_size, num_hidden_layers,
num_attention_heads, num_key_value_heads, head_dim, rms_norm_eps, rope_theta, rope_scaling (None, or a dict with
`rope_type` and its numbers; "factors", what each frequency is divided by, is how GGUF files have llama3's),
max_position_embeddings, tie_word_embeddings, attention_bias, mlp_bias, hidden_act, sliding_window (None: no layer has
one). gemma3 adds layer_types (`sliding_attention` or `full_attention` for each layer), rope_local_base_freq (the
sliding layers' base) and query_pre_attn_scalar. bert has layer_norm_eps, type_vocab_size, position_embedding_type and
is_decoder instead of what is said of RMS norms, rotation and biases. A folder of sentence-transformers adds
max_seq_length.

A family that is not known keeps its config as it is: the models' registry refuses it, with the list of those it has.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dayzero.errors import CheckpointError

Config = dict[str, Any]

MAX_LAYERS = 4096
MAX_TOKEN_ID = 1 << 31

# What transformers' config classes assume for a key that config.json leaves out.
_COMMON: Config = {
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
    "hidden_act": "silu",
    "sliding_window": None,
    "rope_theta": 10_000.0,
}
_DEFAULTS: Mapping[str, Config] = {
    "bert": {
        "vocab_size": 30_522,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "sliding_window": None,
    },
    "llama": {**_COMMON, "max_position_embeddings": 2048},
    "qwen2": {**_COMMON, "max_position_embeddings": 32_768, "attention_bias": True},
    "qwen3": {**_COMMON, "max_position_embeddings": 32_768, "head_dim": 128},
    "gemma3": {
        **_COMMON,
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position_embeddings": 131_072,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "tie_word_embeddings": True,
    },
}
_COUNTS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip
_SOME_COUNTS = ("type_vocab_size",)
_NUMBERS = ("rms_norm_eps", "layer_norm_eps", "rope_theta", "rope_local_base_freq", "query_pre_attn_scalar")
_ROPE_NUMBERS = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """What the checkpoint says a generation is like when the request does not. None: it does not say.

    eos_token_ids   every id that ends a generation: of generation_config.json, config.json and the tokenizer
    temperature     0 where `do_sample` is explicitly false
    """

    eos_token_ids: tuple[int, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None


def is_multimodal(raw: Config) -> bool:
    """Whether the language model is one part of several, with its config and its tensors one level down."""
    return isinstance(raw.get("text_config"), dict)


def canonical(raw: Config, where: Path) -> Config:
    """The canonical keys, checked; `where` is named in errors."""
    flat = {**raw, **raw["text_config"]} if is_multimodal(raw) else dict(raw)
    family = flat.get("model_type")
    if not isinstance(family, str):
        raise CheckpointError(f"missing key in {where}: model_type")
    family = family.removesuffix("_text") if is_multimodal(raw) or family == "gemma3_text" else family
    flat["model_type"] = family
    if family not in _DEFAULTS:
        return flat
    for key, default in _DEFAULTS[family].items():
        if flat.get(key) is None:
            flat[key] = default
    if family == "gemma3":
        flat["hidden_act"] = flat.get("hidden_activation") or flat["hidden_act"]
    if family == "qwen2":
        flat["attention_bias"] = True  # not a key of qwen2: q, k and v always have one
    _fill_heads(flat, where)
    _unify_rope(flat, where)
    check(flat, where)
    _unify_windows(flat, where)
    return flat


def check(flat: Config, where: Path) -> None:
    """Refuse counts below one, numbers that are not finite, and more layers than any model has."""
    for key in (*_COUNTS, *(key for key in _SOME_COUNTS if key in flat)):
        flat[key] = _count(flat, key, where)
    if flat["num_hidden_layers"] > MAX_LAYERS:
        raise CheckpointError(f"too many layers in {where}: {flat['num_hidden_layers']} (limit: {MAX_LAYERS})")
    for key in _NUMBERS:
        if key in flat:
            flat[key] = _number(flat[key], key, where)


def _fill_heads(flat: Config, where: Path) -> None:
    heads = _count(flat, "num_attention_heads", where)
    if flat.get("num_key_value_heads") is None:
        flat["num_key_value_heads"] = heads
    if flat.get("head_dim") is None:
        flat["head_dim"] = _count(flat, "hidden_size", where) // heads


def _unify_rope(flat: Config, where: Path) -> None:
    """`rope_parameters` (transformers 5, flat or one dict per layer type) and `rope_scaling` (before) are one."""
    parameters = flat.pop("rope_parameters", None)
    scaling = flat.get("rope_scaling")
    if isinstance(parameters, dict):
        scaling = parameters.get("full_attention", parameters)
        local = parameters.get("sliding_attention")
        if isinstance(local, dict) and local.get("rope_theta") is not None:
            flat["rope_local_base_freq"] = local["rope_theta"]
    if scaling is None:
        flat["rope_scaling"] = None
        return
    if not isinstance(scaling, dict):
        raise CheckpointError(f"wrong type in {where}: rope_scaling is not an object")
    scaling = dict(scaling)
    theta = scaling.pop("rope_theta", None)
    if theta is not None:
        flat["rope_theta"] = theta
    legacy = scaling.pop("type", None)
    kind = scaling.setdefault("rope_type", legacy or "default")
    if kind == "factors":
        raise CheckpointError(f"wrong value in {where}: rope_scaling has the type factors, which only GGUF files have")
    for key in _ROPE_NUMBERS.get(str(kind), ()):
        scaling[key] = _number(scaling.get(key), f"rope_scaling.{key}", where)
        if scaling[key] <= 0:
            raise CheckpointError(f"wrong value in {where}: rope_scaling.{key} is {scaling[key]} (wanted: above 0)")
    flat["rope_scaling"] = None if kind == "default" else scaling


def _unify_windows(flat: Config, where: Path) -> None:
    if flat["model_type"] != "gemma3":
        flat.pop("layer_types", None)
        if not flat.get("use_sliding_window", False):
            flat["sliding_window"] = None
        return
    _count(flat, "sliding_window", where)
    num_layers = flat["num_hidden_layers"]
    types = flat.get("layer_types")
    if types is None:
        flat.setdefault("sliding_window_pattern", 6)
        period = _count(flat, "sliding_window_pattern", where)
        types = ["sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(num_layers)]
    known = ("sliding_attention", "full_attention")
    if not isinstance(types, list) or len(types) != num_layers or any(kind not in known for kind in types):
        raise CheckpointError(f"layer_types of {where}: not one of {', '.join(known)} for each of {num_layers} layers")
    flat["layer_types"] = types


def _count(values: Mapping[str, Any], key: str, where: Path) -> int:
    value = values.get(key)
    if value is None:
        raise CheckpointError(f"missing key in {where}: {key}")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"wrong value in {where}: {key} is {str(value)[:40]} (wanted: a positive whole number)")
    return value


def _number(value: object, key: str, where: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CheckpointError(f"wrong value in {where}: {key} is {str(value)[:40]} (wanted: a finite number)")
    return float(value)


def read_generation(values: Config, eos_token_ids: frozenset[int], where: Path) -> GenerationDefaults:
    """The keys of a generation_config.json that we honour; `eos_token_ids` were found elsewhere and are added."""

    def number(key: str) -> float | None:
        return None if values.get(key) is None else _number(values[key], key, where)

    def whole(key: str) -> int | None:
        value = number(key)
        if value is not None and not value.is_integer():
            raise CheckpointError(f"wrong value in {where}: {key} is {value} (wanted: a whole number)")
        return None if value is None else int(value)

    return GenerationDefaults(
        eos_token_ids=tuple(sorted(eos_token_ids | token_ids(values, "eos_token_id", where))),
        temperature=0.0 if values.get("do_sample") is False else number("temperature"),
        top_p=number("top_p"),
        top_k=whole("top_k"),
        min_p=number("min_p"),
        repetition_penalty=number("repetition_penalty"),
        max_new_tokens=whole("max_new_tokens"),
    )


def token_ids(values: Mapping[str, Any], key: str, where: Path) -> frozenset[int]:
    """One id, a list of ids or nothing, as a set."""
    value = values.get(key)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < MAX_TOKEN_ID:
            raise CheckpointError(f"wrong value in {where}: {key} is {str(value)[:40]} (wanted: a token id or a list)")
    return frozenset(ids)
