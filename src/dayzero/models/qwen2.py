"""Qwen2 and Qwen2.5: llama's blocks with a bias on Q, K and V. Source: arXiv 2407.10671; Hugging Face `qwen2`."""

from dataclasses import replace

from dayzero.errors import UnsupportedModel
from dayzero.models import llama
from dayzero.models.family import Config


def parse(config: Config) -> llama.LlamaShape:
    """Read a `qwen2` config. Its optional sliding window is off in every published dense model, and refused."""
    if config["sliding_window"] is not None:
        raise UnsupportedModel("qwen2 with a sliding window is not supported", hint="set use_sliding_window to false")
    return llama.shape_of(config, qkv_bias=True)


QWEN2 = replace(llama.LLAMA, name="qwen2", parse=parse)
