"""Tiny models on disk, written by the packages that own the formats."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGUFWriter
from safetensors.torch import save_file

WriteGguf = Callable[..., Path]

HIDDEN, HEADS, KV_HEADS, LAYERS, VOCAB = 64, 4, 2, 2, 96


def block_shapes(architecture: str) -> dict[str, tuple[int, ...]]:
    """Tensors of one layer, as torch has their shapes."""
    kv = HIDDEN * KV_HEADS // HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (HIDDEN,),
        "attn_q.weight": (HIDDEN, HIDDEN),
        "attn_k.weight": (kv, HIDDEN),
        "attn_v.weight": (kv, HIDDEN),
        "attn_output.weight": (HIDDEN, HIDDEN),
        "ffn_norm.weight": (HIDDEN,),
        "ffn_gate.weight": (128, HIDDEN),
        "ffn_up.weight": (128, HIDDEN),
        "ffn_down.weight": (HIDDEN, 128),
    }
    if architecture == "qwen2":
        shapes |= {"attn_q.bias": (HIDDEN,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if architecture in ("qwen3", "gemma3"):
        shapes |= {"attn_q_norm.weight": (HIDDEN // HEADS,), "attn_k_norm.weight": (HIDDEN // HEADS,)}
    if architecture == "gemma3":
        shapes |= {"post_attention_norm.weight": (HIDDEN,), "post_ffw_norm.weight": (HIDDEN,)}
    return shapes


@pytest.fixture
def write_gguf(tmp_path: Path) -> WriteGguf:
    """Write a small model with the reference writer. Arguments add to, or with None take from, what is normal."""

    def write(
        architecture: str = "llama",
        *,
        tokenizer: bool = True,
        tensors: Mapping[str, np.ndarray | None] | None = None,
        edit: Callable[[GGUFWriter], object] | None = None,
    ) -> Path:
        path = tmp_path / "model.gguf"
        writer = GGUFWriter(path, architecture)
        writer.add_context_length(512)
        writer.add_embedding_length(HIDDEN)
        writer.add_block_count(LAYERS)
        writer.add_feed_forward_length(128)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KV_HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(50_000.0)
        if tokenizer:
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre("smollm")
            writer.add_token_list(
                ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"t{i}é" for i in range(VOCAB - 3))]
            )
            writer.add_token_types([3, 3, 3] + [1] * (VOCAB - 3))
            writer.add_token_merges(["t 1", "t1 é"])
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)
            writer.add_chat_template("{{ messages[0].content }}")
        if edit is not None:
            edit(writer)
        rng = np.random.default_rng(0)
        shapes = {"token_embd.weight": (VOCAB, HIDDEN), "output_norm.weight": (HIDDEN,)}
        for layer in range(LAYERS):
            shapes |= {f"blk.{layer}.{name}": shape for name, shape in block_shapes(architecture).items()}
        arrays: dict[str, np.ndarray | None] = {
            name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()
        }
        for name, array in (arrays | dict(tensors or {})).items():
            if array is not None:
                writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Hugging Face folder with two tensors, a config and a tokenizer.json."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    save_file(
        {"model.norm.weight": torch.ones(64), "lm_head.weight": torch.zeros(96, 64, dtype=torch.bfloat16)},
        path / "model.safetensors",
    )
    tokens = [{"id": 1, "content": "<s>", "special": True}, {"id": 2, "content": "</s>", "special": True}]
    (path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens, "model": {"type": "BPE"}}))
    (path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}}))
    return path
