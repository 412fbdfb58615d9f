from collections.abc import Callable

import numpy as np
import pytest
from gguf import GGUFWriter, RopeScalingType
from transformers import AutoConfig, AutoModelForCausalLM

from dayzero.checkpoint.gguf import read_gguf
from dayzero.checkpoint.gguf_names import ARCHITECTURES, read_config, read_tensors
from dayzero.checkpoint.tensor import PlusOne, RotaryRows
from dayzero.errors import CheckpointError, UnsupportedModel


def _gemma(writer: GGUFWriter) -> None:
    writer.add_sliding_window(8)
    writer.add_key_length(16)


EDITS: dict[str, Callable[[GGUFWriter], None]] = {"gemma3": _gemma}


def _open(path):
    file = read_gguf(path)
    config = read_config(file)
    return config, read_tensors(file, config)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_names_and_shapes_are_those_of_transformers(write_gguf, architecture: str) -> None:
    config, tensors = _open(write_gguf(architecture, edit=EDITS.get(architecture)))
    model_type = "gemma3_text" if architecture == "gemma3" else architecture
    keys = (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "tie_word_embeddings",
    )  # fmt: skip
    theirs = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(model_type, pad_token_id=None, **{key: config[key] for key in keys})
    )
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: tuple(parameter.shape) for name, parameter in theirs.named_parameters()
    }


def test_config_keys_are_read_from_the_file(write_gguf) -> None:
    config, _ = _open(write_gguf())
    assert config | {"rms_norm_eps": 0} == {
        "model_type": "llama", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 0, "rope_theta": 50_000.0,
        "rope_scaling": None, "max_position_embeddings": 512, "tie_word_embeddings": True, "attention_bias": False,
        "mlp_bias": False, "hidden_act": "silu", "sliding_window": None,
    }  # fmt: skip
    assert config["rms_norm_eps"] == pytest.approx(1e-5)


def test_only_llama_stores_rotary_rows_in_pairs(write_gguf) -> None:
    _, llama = _open(write_gguf("llama"))
    assert llama["model.layers.1.self_attn.q_proj.weight"].transform == RotaryRows(4)
    assert llama["model.layers.1.self_attn.k_proj.weight"].transform == RotaryRows(2)
    assert llama["model.layers.1.self_attn.v_proj.weight"].transform is None
    _, qwen = _open(write_gguf("qwen2"))
    assert all(tensor.transform is None for tensor in qwen.values())


def test_only_the_norms_of_gemma_are_stored_plus_one(write_gguf) -> None:
    _, tensors = _open(write_gguf("gemma3", edit=_gemma))
    plus_one = {name for name, tensor in tensors.items() if tensor.transform == PlusOne()}
    assert plus_one == {name for name in tensors if "norm" in name}


def test_an_own_output_matrix_is_the_head(write_gguf) -> None:
    config, tensors = _open(write_gguf(tensors={"output.weight": np.zeros((96, 64), np.float32)}))
    assert not config["tie_word_embeddings"]
    assert tensors["lm_head.weight"].shape == (96, 64)


def test_biases_are_mapped_and_said_so(write_gguf) -> None:
    config, tensors = _open(write_gguf("qwen2"))
    assert config["attention_bias"]
    assert tensors["model.layers.0.self_attn.k_proj.bias"].shape == (32,)


def test_rotary_factors_become_rope_scaling(write_gguf) -> None:
    factors = [1.0, 1.0, 1.5, 2.0, 4.0, 8.0, 8.0, 8.0]
    config, tensors = _open(write_gguf(tensors={"rope_freqs.weight": np.array(factors, np.float32)}))
    assert config["rope_scaling"] == {"rope_type": "factors", "factors": factors}
    assert "rope_freqs.weight" not in tensors


@pytest.mark.parametrize("factors", [np.ones(7, np.float32), np.ones(8, np.float16), np.zeros(8, np.float32)])
def test_rotary_factors_that_make_no_sense_are_refused(write_gguf, factors) -> None:
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight"):
        _open(write_gguf(tensors={"rope_freqs.weight": factors}))


def test_rotary_factors_beside_another_scaling_are_refused(write_gguf) -> None:
    def scale(writer: GGUFWriter) -> None:
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)

    with pytest.raises(UnsupportedModel, match="linear on top"):
        _open(write_gguf(tensors={"rope_freqs.weight": np.ones(8, np.float32)}, edit=scale))


def test_rope_scaling_becomes_the_config_of_hugging_face(write_gguf) -> None:
    def scale(writer: GGUFWriter) -> None:
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(128)

    config, _ = _open(write_gguf("qwen2", edit=scale))
    assert config["rope_scaling"] == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}


def test_gemma_gets_its_windows_and_rotary_bases(write_gguf) -> None:
    config, _ = _open(write_gguf("gemma3", edit=_gemma))
    assert config["sliding_window"] == 8
    assert config["layer_types"] == ["sliding_attention", "sliding_attention"]
    assert config["rope_local_base_freq"] == 10_000.0
    assert config["query_pre_attn_scalar"] == 16
    assert config["hidden_act"] == "gelu_pytorch_tanh"


@pytest.mark.parametrize(("pattern", "kinds"), [(2, "sf"), ([False, True], "fs")])
def test_gemma_takes_the_pattern_of_the_file(write_gguf, pattern, kinds: str) -> None:
    def edit(writer: GGUFWriter) -> None:
        _gemma(writer)
        key = "gemma3.attention.sliding_window_pattern"
        writer.add_array(key, pattern) if isinstance(pattern, list) else writer.add_uint32(key, pattern)

    config, _ = _open(write_gguf("gemma3", edit=edit))
    assert "".join(kind[0] for kind in config["layer_types"]) == kinds


@pytest.mark.parametrize("pattern", [0, [True]])
def test_a_pattern_that_does_not_fit_the_layers_is_refused(write_gguf, pattern) -> None:
    def edit(writer: GGUFWriter) -> None:
        _gemma(writer)
        key = "gemma3.attention.sliding_window_pattern"
        writer.add_array(key, pattern) if isinstance(pattern, list) else writer.add_uint32(key, pattern)

    with pytest.raises(CheckpointError):
        _open(write_gguf("gemma3", edit=edit))


def test_an_unknown_architecture_is_refused_with_those_known(write_gguf) -> None:
    with pytest.raises(UnsupportedModel, match=r"architecture of .*: mamba\nhint: .*llama, qwen2, qwen3, gemma3"):
        _open(write_gguf("mamba"))


@pytest.mark.parametrize(
    "name", ["blk.0.ffn_gate_exps.weight", "blk.0.attn_q_norm.weight", "mm.0.weight", "blk.00.attn_q.weight"]
)
def test_a_tensor_without_a_name_of_ours_is_refused(write_gguf, name: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"unknown tensor in .*: {name}"):
        _open(write_gguf(tensors={name: np.zeros(32, np.float32)}))


def test_rows_that_do_not_divide_into_heads_are_refused(write_gguf) -> None:
    with pytest.raises(CheckpointError, match=r"rows of tensor blk.0.attn_q.weight .*: 63 for 4 heads"):
        _open(write_gguf(tensors={"blk.0.attn_q.weight": np.zeros((63, 64), np.float32)}))


def test_keys_and_values_of_different_width_are_refused(write_gguf) -> None:
    def edit(writer: GGUFWriter) -> None:
        writer.add_key_length(16)
        writer.add_value_length(8)

    with pytest.raises(UnsupportedModel, match="keys 16 wide, values 8"):
        _open(write_gguf(edit=edit))


def test_a_missing_embedding_is_named(write_gguf) -> None:
    with pytest.raises(CheckpointError, match=r"missing tensor in .*: token_embd.weight"):
        _open(write_gguf(tensors={"token_embd.weight": None}))
