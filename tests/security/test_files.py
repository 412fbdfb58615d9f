"""A model's file is somebody else's bytes: numbers in it are held against its length, and none overflows."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from dayzero.checkpoint.gguf import read_gguf
from dayzero.checkpoint.safetensors import read_file
from dayzero.errors import CheckpointError

# Where sums, products and paddings of 64 bits wrap, and where a size turns negative.
HUGE = [2**31, 2**32, 2**61, 2**62, 2**63 - 33, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 32, 2**64 - 1]


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "f.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_string("word", "x")
    writer.add_array("words", ["a", "bc"])
    writer.add_array("numbers", [1, 2, 3])
    writer.add_tensor("w", np.zeros((2, 32), dtype=np.float32))
    writer.add_tensor("v", np.zeros((32,), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_anywhere_in_a_gguf_header_is_refused_or_harmless(gguf: Path, number: int) -> None:
    """CVE-2026-27940 and CVE-2025-53630: sizes that overflow. CVE-2026-7482: a tensor beyond the file, served from
    whatever lay behind it. CVE-2025-66960: the length of a string."""
    good = gguf.read_bytes()
    refused = 0
    for at in range(8, read_gguf(gguf).header_bytes - 7):
        gguf.write_bytes(good[:at] + struct.pack("<Q", number) + good[at + 8 :])
        try:
            file = read_gguf(gguf)
        except CheckpointError:
            refused += 1
            continue
        for tensor in file.tensors:
            assert 0 <= tensor.start <= tensor.end <= len(good)
            assert len(file.data(tensor)) == tensor.end - tensor.start
    assert refused > 100


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_in_a_safetensors_header_is_refused(tmp_path: Path, number: int) -> None:
    """CVE-2026-7482 and its like in the other format."""
    path = tmp_path / "f.safetensors"
    for shape, offsets in (
        ([number], [0, 8]),
        ([2**32, 2**32], [0, 8]),
        ([2], [0, number]),
        ([2], [number, number + 8]),
        ([2], [-8, 0]),
        ([-2], [0, 8]),
    ):
        header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
        with pytest.raises(CheckpointError):
            read_file(path)
    path.write_bytes(struct.pack("<Q", number) + b"{}" + bytes(8))
    with pytest.raises(CheckpointError):
        read_file(path)
