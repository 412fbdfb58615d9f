"""safetensors files, one or a sharded set: names, shapes and where the bytes lie. Nothing is copied.

A file is read only if its header accounts for every byte: ranges inside the file, of the size that the shape wants,
without overlap or hole. Pickled weights (.bin, .pt) are never opened. Source: the format's README.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from dayzero.checkpoint.mapping import FETCH_AGAIN, map_file, parse_json_object, read_json_object
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import CheckpointError, UnsupportedModel

MAX_HEADER_BYTES = 100_000_000  # the format's own limit

_ELEMENT_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "I64": 8}  # I64: of buffers
_LENGTH = struct.Struct("<Q")
_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    """A parsed file; `header` is its JSON as it lies on disk."""

    path: Path
    header: bytes
    tensors: dict[str, StoredTensor]


def read_folder(folder: Path) -> list[SafetensorsFile]:
    """All weight files of a folder: `model.safetensors`, or the shards that its index names."""
    if (folder / _SINGLE).exists():
        return [read_file(folder / _SINGLE)]
    if (folder / _INDEX).exists():
        return _read_shards(folder)
    pickled = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
    if pickled:
        raise UnsupportedModel(
            f"pickled weights in {folder}: {pickled[0]}",
            hint="a pickle can run code; save the model again as safetensors",
        )
    raise CheckpointError(f"no weights in {folder}: neither {_SINGLE} nor {_INDEX}")


def read_file(path: Path) -> SafetensorsFile:
    """Parse and check one file."""
    mapping = map_file(path)
    size = len(mapping)
    if size < 8:
        raise CheckpointError(f"truncated file: {path} has {size} bytes", hint=FETCH_AGAIN)
    header_bytes: int = _LENGTH.unpack_from(mapping)[0]
    if header_bytes > min(MAX_HEADER_BYTES, size - 8):
        raise CheckpointError(
            f"header of {path}: {header_bytes} bytes in a file of {size} (limit: {MAX_HEADER_BYTES})", hint=FETCH_AGAIN
        )
    header = mapping[8 : 8 + header_bytes]
    try:
        entries = parse_json_object(header.decode(), f"the header of {path}")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"not UTF-8: the header of {path}") from error
    entries.pop("__metadata__", None)
    view = memoryview(mapping)[8 + header_bytes :]
    tensors: dict[str, StoredTensor] = {}
    expected = 0
    for start, end, name, shape, kind in sorted(_entries(path, entries)):
        if start != expected:
            what = "overlap" if start < expected else "leave a hole"
            raise CheckpointError(f"tensors {what} in {path}: {name} begins at byte {start}, wanted {expected}")
        if end > len(view):
            raise CheckpointError(
                f"tensor {name} ends beyond the file {path}: byte {end} of {len(view)}", hint=FETCH_AGAIN
            )
        tensors[name] = StoredTensor(name, shape, kind, view[start:end])
        expected = end
    if expected != len(view):
        raise CheckpointError(f"bytes without a tensor in {path}: {len(view) - expected} at the end")
    return SafetensorsFile(path, header, tensors)


def _entries(path: Path, entries: dict[str, Any]) -> Iterator[tuple[int, int, str, tuple[int, ...], str]]:
    """start, end, name, shape, format of each entry; size and types checked, place not yet."""
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise CheckpointError(f"entry of tensor {name} in {path} is not an object")
        kind, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
        if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
            raise CheckpointError(f"shape or data_offsets of tensor {name} in {path}: not lists of whole numbers")
        if kind not in _ELEMENT_BYTES:
            raise UnsupportedModel(
                f"unknown format of tensor {name} in {path}: {str(kind)[:40]}",
                hint=f"known in safetensors: {', '.join(_ELEMENT_BYTES)}",
            )
        if math.prod(shape) == 0:
            raise CheckpointError(f"empty tensor in {path}: {name} has shape {shape}")
        wanted = math.prod(shape) * _ELEMENT_BYTES[kind]
        if offsets[1] - offsets[0] != wanted:
            raise CheckpointError(
                f"size of tensor {name} in {path}: {offsets[1] - offsets[0]} bytes (shape {shape} wants {wanted})"
            )
        yield offsets[0], offsets[1], name, tuple(shape), kind


def _are_counts(value: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= 8
        and all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 1 << 62 for item in value)
    )


def _read_shards(folder: Path) -> list[SafetensorsFile]:
    index = folder / _INDEX
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(v, str) for v in weight_map.values()):
        raise CheckpointError(f"weight_map of {index}: not an object from tensors to files")
    shards: dict[str, SafetensorsFile] = {}
    for name in sorted(set(weight_map.values())):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(f"shard of {index}: {name!r} is not a safetensors file of this folder")
        if not (folder / name).is_file():
            raise CheckpointError(f"missing shard in {folder}: {name}", hint=FETCH_AGAIN)
        shards[name] = read_file(folder / name)
    for tensor, shard in weight_map.items():
        if tensor not in shards[shard].tensors:
            raise CheckpointError(f"missing tensor in {folder / shard}: {tensor}, which {_INDEX} places there")
    return list(shards.values())
