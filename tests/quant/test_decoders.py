import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize as oracle

from dayzero.checkpoint.tensor import FORMATS
from dayzero.quant.decoders import DECODERS


def test_there_is_a_decoder_for_every_format() -> None:
    assert DECODERS.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_any_blocks_decode_to_the_bits_of_the_reference(name: str) -> None:
    """Random bytes: every code, every packed scale, and infinite and NaN super-scales among the fp16 ones."""
    block_bytes = FORMATS[name].block_bytes
    blocks = np.random.default_rng(1).integers(0, 256, (4096, block_bytes), dtype=np.uint8)
    ours = DECODERS[name](torch.from_numpy(blocks)).numpy()
    with np.errstate(all="ignore"):
        theirs = oracle(blocks, gguf.GGMLQuantizationType[name])
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    valid = ~np.isnan(theirs)
    assert valid.mean() > 0.8
    np.testing.assert_array_equal(ours[valid].view(np.uint32), theirs[valid].view(np.uint32))
