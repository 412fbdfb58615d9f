"""Qwen3, dense: llama's blocks with an RMS norm on each head of Q and K. Source: arXiv 2505.09388; HF `qwen3`."""

from dataclasses import replace

from dayzero.errors import UnsupportedModel
from dayzero.models import llama
from dayzero.models.family import Config


def parse(config: Config) -> llama.LlamaShape:
    """Read a `qwen3` config."""
    if config["sliding_window"] is not None:
        raise UnsupportedModel("qwen3 with a sliding window is not supported", hint="set use_sliding_window to false")
    if config["attention_bias"]:
        raise UnsupportedModel("qwen3 with attention biases is not supported", hint="use a model without them")
    return llama.shape_of(config, qk_norm=True)


QWEN3 = replace(llama.LLAMA, name="qwen3", parse=parse)
