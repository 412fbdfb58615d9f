"""The embedded model as transformers computes it, from the tensors that we dequantised."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dayzero.checkpoint.open import open_checkpoint
from dayzero.quant.dequantize import dequantize

SAME_KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings",
)  # fmt: skip


def load(path: Path) -> LlamaForCausalLM:
    """float32. Only the model is asked, never its tokenizer: that of transformers is wrong for such a file."""
    checkpoint = open_checkpoint(path)
    assert checkpoint.config["rope_scaling"] is None
    rope = {"rope_type": "default", "rope_theta": checkpoint.config["rope_theta"]}
    config = LlamaConfig(**{key: checkpoint.config[key] for key in SAME_KEYS}, rope_parameters=rope)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cpu")
    tensors = {name: dequantize(stored, torch.float32) for name, stored in checkpoint.tensors.items()}
    tensors.setdefault("lm_head.weight", tensors["model.embed_tokens.weight"])
    model.load_state_dict(tensors, strict=True, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # a buffer of no checkpoint
    return model.eval()
