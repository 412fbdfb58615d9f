import pytest
import torch

from dayzero.errors import UnsupportedModel
from dayzero.models.layers import rope_frequencies

THETA, HEAD_DIM = 500_000.0, 64
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_linear_scaling_divides_every_frequency():
    scaled = rope_frequencies(THETA, HEAD_DIM, {"rope_type": "linear", "factor": 4.0})
    torch.testing.assert_close(scaled, rope_frequencies(THETA, HEAD_DIM, None) / 4)


def test_llama3_scaling_keeps_short_waves_and_stretches_long_ones():
    plain = rope_frequencies(THETA, HEAD_DIM, None)
    divided_by = plain / rope_frequencies(THETA, HEAD_DIM, LLAMA3)
    assert divided_by[0] == 1.0
    assert divided_by[-1] == 8.0
    assert (divided_by.diff() >= 0).all()
    assert 1.0 < divided_by[16] < 8.0


def test_factors_of_a_gguf_file_give_the_frequencies_of_llama3():
    expected = rope_frequencies(THETA, HEAD_DIM, LLAMA3)
    factors = (rope_frequencies(THETA, HEAD_DIM, None) / expected).tolist()
    found = rope_frequencies(THETA, HEAD_DIM, {"rope_type": "factors", "factors": factors})
    torch.testing.assert_close(found, expected)


def test_another_scaling_is_refused_by_name():
    with pytest.raises(UnsupportedModel, match="rope scaling not supported: yarn"):
        rope_frequencies(THETA, HEAD_DIM, {"rope_type": "yarn", "factor": 4.0})
