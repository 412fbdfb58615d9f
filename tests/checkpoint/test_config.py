import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig

from dayzero.checkpoint.config import GenerationDefaults, canonical, read_generation
from dayzero.errors import CheckpointError

WHERE = Path("config.json")
SIZES: dict[str, Any] = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8}
KEYS = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "max_position_embeddings", "sliding_window",
)  # fmt: skip


def _raw(family: str, **other: Any) -> dict[str, Any]:
    return {"model_type": family, "num_attention_heads": 4, **SIZES, **other}


def test_keys_left_out_of_a_bert_config_have_the_values_of_transformers() -> None:
    ours, theirs = canonical({"model_type": "bert"}, WHERE), AutoConfig.for_model("bert")
    for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "hidden_act"):  # fmt: skip
        assert ours[key] == getattr(theirs, key), key
    assert ours["head_dim"] == 64


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text"])
def test_keys_left_out_have_the_values_of_transformers(family: str) -> None:
    ours = canonical(_raw(family), WHERE)
    theirs = AutoConfig.for_model(family, **{key: value for key, value in _raw(family).items() if key != "model_type"})
    for key in KEYS:
        if key == "num_key_value_heads" and family == "qwen3":
            continue  # transformers says 32 whatever the number of heads; such a config cannot be meant
        assert ours[key] == getattr(theirs, key, None), key
    rope = theirs.rope_parameters
    full = rope["full_attention"] if family == "gemma3_text" else rope
    assert ours["rope_theta"] == full["rope_theta"]
    if family == "gemma3_text":
        assert ours["rope_local_base_freq"] == rope["sliding_attention"]["rope_theta"]
        assert ours["query_pre_attn_scalar"] == theirs.query_pre_attn_scalar
        assert ours["layer_types"] == theirs.layer_types
        assert ours["hidden_act"] == theirs.hidden_activation
        assert ours["tie_word_embeddings"]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3_text"])
def test_a_config_saved_by_transformers_5_says_the_same(family: str) -> None:
    saved = AutoConfig.for_model(family, num_attention_heads=4, num_key_value_heads=2, **SIZES).to_dict()
    ours = canonical(copy.deepcopy(saved), WHERE)
    assert ours["model_type"] == family.removesuffix("_text")
    assert ours["rope_scaling"] is None
    assert {key: ours[key] for key in KEYS if saved.get(key) is not None} == {
        key: saved[key] for key in KEYS if saved.get(key) is not None
    }


@pytest.mark.parametrize(
    "given",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}},
    ],
)
def test_every_spelling_of_rope_scaling_becomes_one(given: dict[str, Any]) -> None:
    config = canonical(_raw("llama", **given), WHERE)
    assert config["rope_theta"] == 5e5
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}


def test_the_language_part_of_a_multimodal_config_is_lifted() -> None:
    text = _raw("gemma3_text", rope_scaling={"rope_type": "linear", "factor": 8.0})
    config = canonical({"model_type": "gemma3", "text_config": text, "eos_token_id": [1, 106]}, WHERE)
    assert (config["model_type"], config["hidden_size"], config["eos_token_id"]) == ("gemma3", 64, [1, 106])
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 8.0}
    assert config["sliding_window"] == 4096


def test_a_window_that_is_switched_off_is_none() -> None:
    assert canonical(_raw("qwen2", sliding_window=32, use_sliding_window=False), WHERE)["sliding_window"] is None


def test_a_window_that_is_switched_on_stays() -> None:
    assert canonical(_raw("qwen2", sliding_window=32, use_sliding_window=True), WHERE)["sliding_window"] == 32


def test_a_family_that_is_not_known_keeps_its_config() -> None:
    assert canonical({"model_type": "mamba", "state_size": 16}, WHERE) == {"model_type": "mamba", "state_size": 16}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": None}, "missing key in config.json: model_type"),
        ({"hidden_size": None}, "missing key in config.json: hidden_size"),
        ({"hidden_size": "64"}, "hidden_size is 64"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_hidden_layers": 10**12}, "too many layers .*: 1000000000000"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rope_theta": "big"}, "rope_theta is big"),
        ({"rope_scaling": 2}, "rope_scaling is not an object"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor is None"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "rope_scaling.factor is 0.0"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1}},
            "rope_scaling.high_freq_factor",
        ),
        ({"rope_scaling": {"rope_type": "factors", "factors": [1.0]}}, "rope_scaling has the type factors"),
        ({"model_type": "gemma3_text", "layer_types": ["full_attention"]}, "layer_types .*each of 8 layers"),
        ({"model_type": "gemma3_text", "layer_types": ["chunked_attention"] * 8}, "layer_types"),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
    ],
)
def test_a_wrong_value_is_refused_by_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        canonical(_raw("llama") | change, WHERE)


def test_generation_defaults_are_read_and_end_ids_united() -> None:
    values = {"eos_token_id": [7, 2], "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.1}
    assert read_generation(values, frozenset({2, 3}), WHERE) == GenerationDefaults(
        eos_token_ids=(2, 3, 7), temperature=0.6, top_p=0.9, top_k=20, repetition_penalty=1.1
    )


def test_sampling_that_is_explicitly_off_means_temperature_zero() -> None:
    assert read_generation({"do_sample": False, "temperature": 0.7}, frozenset(), WHERE).temperature == 0.0
    assert read_generation({"temperature": 0.7}, frozenset(), WHERE).temperature == 0.7


@pytest.mark.parametrize(
    "values",
    [{"temperature": "hot"}, {"top_k": 1.5}, {"top_p": float("inf")}, {"eos_token_id": "x"}, {"eos_token_id": [-1]}],
)
def test_a_generation_value_of_the_wrong_type_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=next(iter(values))):
        read_generation(values, frozenset(), WHERE)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["rope_type", "type", "rope_theta", "x"]), inner)
    ),
    max_leaves=5,
)
_ANY_KEY = (
    *KEYS, "model_type", "rope_theta", "rope_scaling", "rope_parameters", "layer_types", "use_sliding_window",
    "sliding_window_pattern", "text_config", "quantization_config", "hidden_activation",
    "rope_local_base_freq", "query_pre_attn_scalar",
)  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    family=st.sampled_from(["llama", "qwen2", "gemma3_text"]), change=st.dictionaries(st.sampled_from(_ANY_KEY), _JSON)
)
def test_values_of_any_type_give_a_config_or_a_checkpoint_error(family: str, change: dict[str, Any]) -> None:
    try:
        config = canonical(_raw(family, use_sliding_window=True) | change, WHERE)
    except CheckpointError:
        return
    assert isinstance(config["model_type"], str)
