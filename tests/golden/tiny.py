"""Tiny seeded checkpoints of every family, made by transformers: the other side of the golden tests.

To look at one: `python -c "from tests.golden.tiny import TINY, save; save(TINY['qwen3'], '/tmp/qwen3')"`.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, Gemma3TextConfig, LlamaConfig, PreTrainedModel, Qwen2Config, Qwen3Config
from transformers.models.auto.modeling_auto import AutoModel, AutoModelForCausalLM

VOCAB_SIZE = 300

_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}


@dataclass(frozen=True)
class Tiny:
    """A config, and how its weights are drawn: wide enough that logits differ and no layer is a bystander."""

    config: type
    options: dict[str, Any]
    norm_mean: float = 1.0
    auto: type = AutoModelForCausalLM
    seed: int = 0


def _gemma3(**options: Any) -> Tiny:
    layers = {"num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32}
    scale = {"query_pre_attn_scalar": 24, "sliding_window": 32}
    return Tiny(Gemma3TextConfig, {**_SIZES, **layers, **scale, **options}, norm_mean=0.3)


TINY = {
    "llama": Tiny(LlamaConfig, {**_SIZES, "tie_word_embeddings": True}),
    "llama untied, one KV head": Tiny(LlamaConfig, {**_SIZES, "num_key_value_heads": 1, "tie_word_embeddings": False}),
    "llama, llama3 rope": Tiny(LlamaConfig, {**_SIZES, "rope_parameters": _LLAMA3_ROPE}),
    "llama, linear rope": Tiny(
        LlamaConfig, {**_SIZES, "rope_parameters": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 4.0}}
    ),
    "llama, head dim of its own": Tiny(LlamaConfig, {**_SIZES, "head_dim": 24}),
    "qwen2": Tiny(Qwen2Config, {**_SIZES, "tie_word_embeddings": False}),
    "qwen2 tied": Tiny(Qwen2Config, {**_SIZES, "tie_word_embeddings": True}),
    "qwen3": Tiny(Qwen3Config, {**_SIZES, "head_dim": 32, "tie_word_embeddings": True}),
    "gemma3": _gemma3(),
    "gemma3, linear rope on full layers": _gemma3(
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
    ),
}

ENCODERS = {
    "bert": Tiny(
        BertConfig,
        {
            **{key: _SIZES[key] for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")},
            "num_attention_heads": 6,
            "max_position_embeddings": 160,
        },
        auto=AutoModel,
    )
}


def build(tiny: Tiny) -> PreTrainedModel:
    """The model in float32, ready to be asked."""
    model: PreTrainedModel = tiny.auto.from_config(tiny.config(**tiny.options), dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(tiny.seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name.lower() and "bias" not in name:
                parameter.normal_(tiny.norm_mean, 0.2, generator=generator)
            else:
                parameter.normal_(0, 0.2 if "bias" in name else 0.15, generator=generator)
    return model


def save(tiny: Tiny, folder: Path | str, *, dtype: torch.dtype = torch.float32, shard: str = "1GB") -> PreTrainedModel:
    """Write the checkpoint as transformers does, and return a float32 model of what was written."""
    model = build(tiny)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype))
    copy.deepcopy(model).to(dtype).save_pretrained(folder, max_shard_size=shard)  # a cast rounds more than parameters
    return model
