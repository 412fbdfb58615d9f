import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from dayzero.checkpoint.safetensors import read_file, read_folder
from dayzero.errors import CheckpointError, UnsupportedModel


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_bytes_and_shapes_are_those_the_reference_wrote(tmp_path: Path, dtype: torch.dtype) -> None:
    weights = {
        "a": torch.randn(3, 5).to(dtype),
        "b": torch.randn(7).to(dtype),
        "scalar": torch.tensor(2.0, dtype=dtype),
    }
    save_file(weights, tmp_path / "f.safetensors", metadata={"format": "pt"})
    ours = read_file(tmp_path / "f.safetensors").tensors
    assert ours.keys() == load_file(tmp_path / "f.safetensors").keys()
    for name, tensor in weights.items():
        assert ours[name].shape == tuple(tensor.shape)
        assert bytes(ours[name].data) == tensor.view(-1).view(torch.uint8).numpy().tobytes()


def _write(path: Path, header: Any, data: bytes = bytes(8)) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def _entry(start: int, end: int, **other: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(end - start) // 4], "data_offsets": [start, end]} | other


_MALFORMED = {
    "not valid JSON: the header": b"{",
    "not UTF-8": b"\xff",
    "key occurs twice .*: w": b'{"w": 1, "w": 2}',
    "key occurs twice .*: shape": b'{"w": {"shape": [1], "shape": [2]}}',
    "entry of tensor w": {"w": 1},
    "shape or data_offsets of tensor w": {"w": _entry(0, 8, shape=[-2])},
    "shape or data_offsets of tensor v": {"v": _entry(0, 8, shape=[True])},
    "shape or data_offsets of tensor u": {"u": _entry(0, 8, data_offsets=[0])},
    "shape or data_offsets of tensor t": {"t": _entry(0, 8, data_offsets=[0, 2**70])},
    "format of tensor w .*: F64": {"w": _entry(0, 8, dtype="F64", shape=[1])},
    "format of tensor v .*: F8_E4M3": {"v": _entry(0, 8, dtype="F8_E4M3", shape=[8])},
    "empty tensor .*: w": {"w": _entry(0, 8, shape=[0])},
    r"size of tensor w .*: 8 bytes \(shape \[3\] wants 12\)": {"w": _entry(0, 8, shape=[3])},
    "size of tensor v .*: -8 bytes": {"v": _entry(0, 8, data_offsets=[8, 0])},
    "tensor w ends beyond the file .*: byte 12 of 8": {"w": _entry(0, 12)},
    "tensors overlap .*: w begins at byte 4, wanted 8": {"v": _entry(0, 8), "w": _entry(4, 8)},
    "tensors leave a hole .*: w begins at byte 4": {"w": _entry(4, 8)},
    "bytes without a tensor .*: 4": {"w": _entry(0, 4)},
}


@pytest.mark.parametrize("message", _MALFORMED)
def test_a_malformed_file_is_refused_by_name(tmp_path: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        read_file(_write(tmp_path / "f.safetensors", _MALFORMED[message]))
    assert "f.safetensors" in caught.value.message


@pytest.mark.parametrize("content", [b"123", struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 3) + b"{}"])
def test_a_header_beyond_the_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="bytes"):
        read_file(tmp_path / "f.safetensors")


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_flipped_or_cut_files_give_an_error_or_consistent_tensors(tmp_path: Path, data) -> None:
    path = tmp_path / "f.safetensors"
    save_file({"a": torch.zeros(4, 4), "b": torch.zeros(4, dtype=torch.bfloat16)}, path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        tensors = read_file(path).tensors
    except CheckpointError:
        return
    assert sum(len(tensor.data) for tensor in tensors.values()) <= len(content)


def _sharded(folder: Path) -> Path:
    save_file({"a": torch.zeros(4)}, folder / "model-00001-of-00002.safetensors")
    save_file({"b": torch.ones(4)}, folder / "model-00002-of-00002.safetensors")
    _index(folder, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    return folder


def _index(folder: Path, weight_map: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_shards_are_read_as_their_index_says(tmp_path: Path) -> None:
    files = read_folder(_sharded(tmp_path))
    assert [sorted(file.tensors) for file in files] == [["a"], ["b"]]


def test_a_shard_missing_from_disk_is_named(tmp_path: Path) -> None:
    (_sharded(tmp_path) / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"missing shard .*: model-00002-of-00002.safetensors"):
        read_folder(tmp_path)


def test_a_tensor_that_its_shard_lacks_is_named(tmp_path: Path) -> None:
    _index(_sharded(tmp_path), {"a": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"})
    with pytest.raises(CheckpointError, match=r"missing tensor in .*model-00002.*: c,"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["../other.safetensors", "/etc/passwd", "sub/x.safetensors", "x.bin"])
def test_an_index_cannot_point_outside_its_folder(tmp_path: Path, name: str) -> None:
    _index(tmp_path, {"a": name})
    with pytest.raises(CheckpointError, match="is not a safetensors file of this folder"):
        read_folder(tmp_path)


@pytest.mark.parametrize("weight_map", [None, {}, {"a": 1}, ["a"]])
def test_an_index_without_a_map_is_refused(tmp_path: Path, weight_map: Any) -> None:
    _index(tmp_path, weight_map)
    with pytest.raises(CheckpointError, match="weight_map"):
        read_folder(tmp_path)


def test_pickled_weights_are_refused_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04not even a pickle")
    with pytest.raises(UnsupportedModel, match=r"pickled weights .*pytorch_model.bin\nhint: a pickle can run code"):
        read_folder(tmp_path)


def test_a_folder_without_weights_says_what_was_looked_for(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"neither model.safetensors nor model.safetensors.index.json"):
        read_folder(folder)
