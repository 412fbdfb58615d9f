"""The GGUF container, versions 2 and 3: metadata and where each tensor lies. One pass over one mapping.

Every count, length, offset and size is checked against the file before it is used, so that a truncated or lying
file costs a CheckpointError and no memory. Long arrays are walked once and decoded only when asked for: the engine
needs no tokens and the gateway no tensors. Knows nothing of architectures (`gguf_names`) or tokenizers (`gguf_text`).

Source: ggml's docs/gguf.md.
"""

import itertools
import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from dayzero.checkpoint.mapping import FETCH_AGAIN, map_file
from dayzero.checkpoint.tensor import FORMATS, stored_bytes
from dayzero.errors import CheckpointError, UnsupportedModel

MAX_KEYS = 65_536
MAX_TENSORS = 65_536
MAX_NAME_BYTES = 65_535  # of a key, by the specification; of a tensor, far above the 64 that ggml allows
MAX_STRING_BYTES = 16 * 1024 * 1024
MAX_ARRAY_LENGTH = 4_194_304  # 16 times the largest known vocabulary
MAX_AXES = 4
MAX_ALIGNMENT = 65_536

_MIN_KEY_BYTES = 8 + 4 + 1  # name length, value type, the smallest value
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8  # name length, axes, one axis, type, offset

_SCALARS: Final = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<B"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_BOOL, _STRING, _ARRAY = 7, 8, 9

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

# ggml's type numbers, those of FORMATS and those that only name what is refused
_TYPES: Final = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufArray:
    """An array of the metadata, walked but not decoded: `count` elements of type `kind` in [start, end)."""

    kind: int
    count: int
    start: int
    end: int


Value = int | float | bool | str | GgufArray


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies. `shape` is row-major, the reverse of what the file says."""

    name: str
    shape: tuple[int, ...]
    format: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A parsed file; `header_bytes` is where the header ends and the tensors' data may begin."""

    path: Path
    mapping: mmap.mmap
    values: Mapping[str, Value]
    tensors: tuple[GgufTensor, ...]
    header_bytes: int

    def data(self, tensor: GgufTensor) -> memoryview:
        """The tensor's bytes, read-only."""
        return memoryview(self.mapping)[tensor.start : tensor.end]

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; without a default the key must be there."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(key, value, "a finite number")
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or False."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self.values.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def strings(self, key: str) -> list[str]:
        """An array of strings, decoded now."""
        array = self.values.get(key)
        if not isinstance(array, GgufArray) or array.kind != _STRING:
            raise self._wrong(key, array, "an array of strings")
        mapping, position, unpack = self.mapping, array.start, _U64.unpack_from
        result: list[str] = []
        append = result.append
        try:
            for _ in range(array.count):
                begin = position + 8
                position = begin + unpack(mapping, position)[0]
                append(mapping[begin:position].decode())
        except UnicodeDecodeError as error:
            raise CheckpointError(f"not UTF-8 in {self.path}: {key}[{len(result)}]") from error
        return result

    def find_strings(self, key: str, wanted: frozenset[bytes]) -> list[int]:
        """Where an array of strings has one of `wanted`; the others are not decoded."""
        array = self.values.get(key)
        if not isinstance(array, GgufArray) or array.kind != _STRING:
            raise self._wrong(key, array, "an array of strings")
        mapping, position, unpack = self.mapping, array.start, _U64.unpack_from
        lengths = {len(text) for text in wanted}
        found: list[int] = []
        for index in range(array.count):
            length = unpack(mapping, position)[0]
            if length in lengths and mapping[position + 8 : position + 8 + length] in wanted:
                found.append(index)
            position += 8 + length
        return found

    def numbers(self, key: str, kind: type[int] | type[float] | type[bool]) -> list[int] | list[float] | list[bool]:
        """An array of whole numbers, of finite or infinite floats, or of truth values, decoded now."""
        array = self.values.get(key)
        kinds = {int: (0, 1, 2, 3, 4, 5, 10, 11), float: (6, 12), bool: (_BOOL,)}[kind]
        if not isinstance(array, GgufArray) or array.kind not in kinds:
            raise self._wrong(key, array, f"an array of {kind.__name__}")
        code = _SCALARS[array.kind].format[1:]
        values = list(struct.unpack_from(f"<{array.count}{code}", self.mapping, array.start))
        return [value != 0 for value in values] if kind is bool else values

    def _wrong(self, key: str, value: object, wanted: str) -> CheckpointError:
        if value is None:
            return CheckpointError(f"missing key in {self.path}: {key}")
        kind = "an array" if isinstance(value, GgufArray) else type(value).__name__
        return CheckpointError(f"wrong type in {self.path}: {key} is {kind} (wanted: {wanted})")


def read_gguf(path: Path) -> GgufFile:
    """Parse the header and check that every tensor lies inside the file, apart from all others."""
    return _Reader(path).read()


class _Reader:
    """A position in the mapping. Invariant: 0 <= position <= size, or an error was raised."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mapping = map_file(path)
        self._size = len(self._mapping)
        self._position = 0

    def read(self) -> GgufFile:
        self._read_magic()
        num_tensors = self._count("tensors", MAX_TENSORS, _MIN_TENSOR_BYTES)
        num_keys = self._count("keys", MAX_KEYS, _MIN_KEY_BYTES)
        values: dict[str, Value] = {}
        for _ in range(num_keys):
            key = self._string("a key's name", MAX_NAME_BYTES)
            if key in values:
                raise CheckpointError(f"key occurs twice in {self._path}: {key}")
            values[key] = self._value(key)
        alignment = self._alignment(values)
        infos = [self._tensor_info() for _ in range(num_tensors)]
        header_bytes = self._position
        data_start = (header_bytes + alignment - 1) // alignment * alignment
        tensors = tuple(self._place(info, data_start, alignment) for info in infos)
        self._check_apart(tensors)
        return GgufFile(self._path, self._mapping, MappingProxyType(values), tensors, header_bytes)

    def _read_magic(self) -> None:
        if self._mapping[:4] != b"GGUF":
            raise CheckpointError(f"not a GGUF file: {self._path} begins with {self._mapping[:4]!r}")
        self._position = 4
        version = self._u32("the version")
        if version & 0xFFFF == 0:
            raise CheckpointError(
                f"big-endian GGUF file: {self._path}", hint="convert the model again, for a little-endian machine"
            )
        if version not in (2, 3):
            raise UnsupportedModel(f"GGUF version of {self._path}: {version} (known: 2, 3)")

    def _value(self, key: str) -> Value:
        kind = self._u32(key)
        if kind == _STRING:
            return self._string(key, MAX_STRING_BYTES)
        if kind == _ARRAY:
            return self._array(key)
        return self._scalar(key, kind)

    def _scalar(self, key: str, kind: int) -> int | float | bool:
        scalar = _SCALARS.get(kind)
        if scalar is None:
            raise CheckpointError(f"unknown value type in {self._path}: {key} has type {kind}")
        start = self._take(scalar.size, key)
        value: int | float = scalar.unpack_from(self._mapping, start)[0]
        return bool(value) if kind == _BOOL else value

    def _array(self, key: str) -> GgufArray:
        kind = self._u32(key)
        count = self._u64(key)
        if count > MAX_ARRAY_LENGTH:
            raise CheckpointError(f"array too long in {self._path}: {key} has {count} (limit: {MAX_ARRAY_LENGTH})")
        start = self._position
        if kind == _STRING:
            self._walk_strings(key, count)
        elif kind in _SCALARS:
            self._take(count * _SCALARS[kind].size, key)
        else:
            raise CheckpointError(f"unknown element type in {self._path}: {key} is an array of type {kind}")
        return GgufArray(kind, count, start, self._position)

    def _walk_strings(self, key: str, count: int) -> None:
        """Step over `count` strings. The loop is what start-up waits for: one unpack and one add a string."""
        mapping, size, position, unpack = self._mapping, self._size, self._position, _U64.unpack_from
        try:
            for _ in range(count):
                position += 8 + unpack(mapping, position)[0]
        except (struct.error, OverflowError):
            position = size + 1
        if position > size:
            raise CheckpointError(
                f"truncated or lying file: {self._path}: {key} ends beyond byte {size}", hint=FETCH_AGAIN
            )
        self._position = position

    def _alignment(self, values: Mapping[str, Value]) -> int:
        alignment = values.get("general.alignment", 32)
        if isinstance(alignment, bool) or not isinstance(alignment, int):
            raise CheckpointError(f"wrong type in {self._path}: general.alignment is not a whole number")
        if not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
            raise CheckpointError(
                f"general.alignment of {self._path}: {alignment} (wanted: a power of two up to {MAX_ALIGNMENT})"
            )
        return alignment

    def _tensor_info(self) -> tuple[str, tuple[int, ...], str, int]:
        """Name, row-major shape, format and offset from the start of the data."""
        name = self._string("a tensor's name", MAX_NAME_BYTES)
        num_axes = self._u32(name)
        if not 1 <= num_axes <= MAX_AXES:
            raise CheckpointError(f"axes of tensor {name} in {self._path}: {num_axes} (wanted: 1 to {MAX_AXES})")
        shape = tuple(self._u64(name) for _ in range(num_axes))[::-1]
        if 0 in shape:
            raise CheckpointError(f"empty tensor in {self._path}: {name} has shape {shape}")
        number = self._u32(name)
        kind = _TYPES.get(number, f"type {number}")
        if kind not in FORMATS:
            raise UnsupportedModel(
                f"unknown format of tensor {name} in {self._path}: {kind}", hint=f"known formats: {', '.join(FORMATS)}"
            )
        return name, shape, kind, self._u64(name)

    def _place(self, info: tuple[str, tuple[int, ...], str, int], data_start: int, alignment: int) -> GgufTensor:
        name, shape, kind, offset = info
        num_bytes = stored_bytes(shape, kind)
        if num_bytes is None:
            raise CheckpointError(
                f"rows of tensor {name} in {self._path}: {shape[-1]} weights are not whole {kind} blocks "
                f"of {FORMATS[kind].block_weights}"
            )
        if offset % alignment:
            raise CheckpointError(f"offset of tensor {name} in {self._path}: {offset} is not aligned to {alignment}")
        start = data_start + offset
        if start + num_bytes > self._size:
            raise CheckpointError(
                f"tensor {name} ends beyond the file {self._path}: byte {start + num_bytes} of {self._size}",
                hint=FETCH_AGAIN,
            )
        return GgufTensor(name, shape, kind, start, start + num_bytes)

    def _check_apart(self, tensors: tuple[GgufTensor, ...]) -> None:
        names: set[str] = set()
        for tensor in tensors:
            if tensor.name in names:
                raise CheckpointError(f"tensor occurs twice in {self._path}: {tensor.name}")
            names.add(tensor.name)
        ordered = sorted(tensors, key=lambda tensor: tensor.start)
        for before, after in itertools.pairwise(ordered):
            if after.start < before.end:
                raise CheckpointError(
                    f"tensors overlap in {self._path}: {before.name} ends at byte {before.end}, "
                    f"{after.name} begins at {after.start}"
                )

    def _count(self, what: str, limit: int, min_bytes: int) -> int:
        count = self._u64(f"the number of {what}")
        if count > limit:
            raise CheckpointError(f"too many {what} in {self._path}: {count} (limit: {limit})")
        if count * min_bytes > self._size - self._position:
            raise CheckpointError(f"too many {what} in {self._path}: {count} in {self._size} bytes", hint=FETCH_AGAIN)
        return count

    def _string(self, what: str, limit: int) -> str:
        length = self._u64(what)
        if length > limit:
            raise CheckpointError(f"string too long in {self._path}: {what} has {length} bytes (limit: {limit})")
        start = self._take(length, what)
        try:
            return self._mapping[start : self._position].decode()
        except UnicodeDecodeError as error:
            raise CheckpointError(f"not UTF-8 in {self._path}: {what}") from error

    def _u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self._mapping, self._take(4, what))[0]
        return value

    def _u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self._mapping, self._take(8, what))[0]
        return value

    def _take(self, num_bytes: int, what: str) -> int:
        """Step over `num_bytes` and return where they began."""
        start = self._position
        if num_bytes > self._size - start:
            raise CheckpointError(
                f"truncated or lying file: {self._path}: {what} wants bytes {start} to {start + num_bytes} "
                f"of {self._size}",
                hint=FETCH_AGAIN,
            )
        self._position = start + num_bytes
        return start
