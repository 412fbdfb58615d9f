"""What each family refuses. What they compute is compared with transformers in tests/golden."""

from pathlib import Path

import pytest

from dayzero.checkpoint.config import canonical
from dayzero.errors import UnsupportedModel
from dayzero.models.registry import family_of

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "tie_word_embeddings": True,
}
WINDOW = {"use_sliding_window": True, "sliding_window": 32}


@pytest.mark.parametrize(
    ("model_type", "change", "message"),
    [
        ("llama", {"attention_bias": True}, "biases"),
        ("llama", {"mlp_bias": True}, "biases"),
        ("llama", {"hidden_act": "gelu"}, "activation not supported: gelu"),
        ("qwen2", WINDOW, "sliding window"),
        ("qwen3", WINDOW, "sliding window"),
        ("qwen3", {"attention_bias": True}, "attention biases"),
        ("gemma3_text", {"final_logit_softcapping": 30.0}, "soft-capped"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "bidirectional"),
        ("gemma3_text", {"hidden_activation": "relu"}, "activation not supported: relu"),
        ("bert", {"hidden_act": "relu"}, "hidden_act relu"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type relative_key"),
        ("bert", {"is_decoder": True}, "is_decoder True"),
    ],
)
def test_a_variant_that_we_do_not_compute_is_refused_by_name(model_type, change, message):
    config = canonical({"model_type": model_type, **SIZES}, Path("config.json"))
    family_of(config["model_type"]).parse(config)
    changed = canonical({"model_type": model_type, **SIZES, **change}, Path("config.json"))
    with pytest.raises(UnsupportedModel, match=message):
        family_of(changed["model_type"]).parse(changed)
