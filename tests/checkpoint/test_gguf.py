import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dayzero.checkpoint import gguf_names, gguf_text
from dayzero.checkpoint.gguf import GgufArray, GgufFile, read_gguf
from dayzero.errors import CheckpointError, UnsupportedModel


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _key(name: str, kind: int, value: bytes) -> bytes:
    return _string(name.encode()) + struct.pack("<I", kind) + value


def _tensor(name: str, shape: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return _string(name.encode()) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def _file(keys: list[bytes], tensors: list[bytes], *, data: int = 256, counts: tuple[int, int] | None = None) -> bytes:
    num_tensors, num_keys = counts or (len(tensors), len(keys))
    header = b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_keys) + b"".join(keys) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + bytes(data)


def _read(path: Path, content: bytes) -> GgufFile:
    path.write_bytes(content)
    return read_gguf(path)


def test_every_value_type_comes_back_as_the_writer_wrote_it(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "f.gguf", "llama")
    values = {
        "uint8": 255, "int8": -128, "uint16": 65535, "int16": -32768, "uint32": 2**32 - 1, "int32": -(2**31),
        "float32": 0.5, "uint64": 2**64 - 1, "int64": -(2**63), "float64": 0.1, "bool": True, "string": "é\n",
    }  # fmt: skip
    for kind, value in values.items():
        getattr(writer, f"add_{kind}")(f"key.{kind}", value)
    writer.add_array("key.strings", ["", "a", "é" * 100])
    writer.add_array("key.ints", [-1, 2**31 - 1])
    writer.add_array("key.floats", [0.25, -2.0])
    writer.add_array("key.bools", [True, False])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    file = read_gguf(tmp_path / "f.gguf")
    for kind, value in values.items():
        assert file.values[f"key.{kind}"] == value
        assert type(file.values[f"key.{kind}"]) is type(value)
    assert file.strings("key.strings") == ["", "a", "é" * 100]
    assert file.numbers("key.ints", int) == [-1, 2**31 - 1]
    assert file.numbers("key.floats", float) == [0.25, -2.0]
    assert file.numbers("key.bools", bool) == [True, False]
    assert file.find_strings("key.strings", frozenset({b"a", b"b"})) == [1]


def test_tensors_lie_where_the_reference_reader_finds_them(write_gguf) -> None:
    path = write_gguf()
    file = read_gguf(path)
    ours = {tensor.name: tensor for tensor in file.tensors}
    theirs = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.shape == tuple(int(n) for n in theirs[name].shape[::-1])
        assert bytes(file.data(tensor)) == theirs[name].data.tobytes()


def test_another_alignment_is_followed(write_gguf) -> None:
    def align(writer: GGUFWriter) -> None:
        writer.add_custom_alignment(128)

    for tensor in read_gguf(write_gguf(edit=align)).tensors:
        assert tensor.start % 128 == 0


@pytest.mark.parametrize("kind", [GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q6_K])
def test_quantized_shapes_are_in_weights_not_bytes(tmp_path: Path, kind: GGMLQuantizationType) -> None:
    block_bytes = {GGMLQuantizationType.Q4_0: 18 * 8, GGMLQuantizationType.Q6_K: 210}[kind]
    writer = GGUFWriter(tmp_path / "f.gguf", "llama")
    writer.add_tensor("w", np.zeros((3, 2 * block_bytes), dtype=np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = read_gguf(tmp_path / "f.gguf").tensors
    assert (tensor.shape, tensor.format) == ((3, 512), kind.name)


_ALIGNMENT = "general.alignment"
_MALFORMED = {
    "not a GGUF file": b"GGML" + bytes(60),
    "truncated": b"GGUF\x03\0\0",
    "version of .*: 1": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "too many tensors .*: 1152921504606846976": _file([], [], counts=(1 << 60, 0)),
    "too many tensors .*: 60000 in": _file([], [], counts=(60_000, 0)),
    "too many keys .*: 60000 in": _file([], [], counts=(0, 60_000)),
    "string too long .*18446744073709551615 bytes": _file([struct.pack("<Q", 2**64 - 1)], []),
    "truncated or lying .*: k wants": _file([_key("k", 8, struct.pack("<Q", 1 << 20))], []),
    "array too long .*: k has 1152921504606846976": _file([_key("k", 9, struct.pack("<IQ", 4, 1 << 60))], []),
    "truncated or lying .*: n wants": _file([_key("n", 9, struct.pack("<IQ", 12, 1 << 20))], []),
    "truncated or lying .*: s ends": _file([_key("s", 9, struct.pack("<IQQ", 8, 3, 2**64 - 1))], []),
    "truncated or lying .*: t ends": _file([_key("t", 9, struct.pack("<IQQ", 8, 3, 2**40))], []),
    "k is an array of type 9": _file([_key("k", 9, struct.pack("<IQ", 9, 1))], []),
    "k has type 13": _file([_key("k", 13, bytes(8))], []),
    "not UTF-8 .*: k": _file([_key("k", 8, _string(b"\xff\xfe"))], []),
    "key occurs twice .*: k": _file([_key("k", 0, b"\0"), _key("k", 0, b"\1")], []),
    "alignment of .*: 24": _file([_key(_ALIGNMENT, 4, struct.pack("<I", 24))], []),
    "alignment of .*: 0 ": _file([_key(_ALIGNMENT, 4, bytes(4))], []),
    "alignment is not a whole number": _file([_key(_ALIGNMENT, 8, _string(b"32"))], []),
    "axes of tensor w .*: 5": _file([], [_tensor("w", (1,) * 5)]),
    "axes of tensor w .*: 0": _file([], [_tensor("w", ())]),
    "empty tensor .*: w": _file([], [_tensor("w", (32, 0))]),
    "format of tensor w .*: Q2_K": _file([], [_tensor("w", (256,), kind=10)]),
    "format of tensor w .*: type 4000000000": _file([], [_tensor("w", kind=4_000_000_000)]),
    "rows of tensor w .*: 31 weights": _file([], [_tensor("w", (31, 32), kind=8)]),
    "offset of tensor w .*: 8 is not aligned to 32": _file([], [_tensor("w", offset=8)]),
    "tensor w ends beyond the file .*: byte 448 of 320": _file([], [_tensor("w", (64,), offset=128)]),
    "tensor w ends beyond the file .*: byte 18446744073709551": _file([], [_tensor("w", offset=2**64 - 32)]),
    "tensor v ends beyond the file": _file([], [_tensor("v", (2**62, 2**62))]),
    "tensor occurs twice .*: w": _file([], [_tensor("w"), _tensor("w", offset=128)]),
    "tensors overlap .*: v ends at byte .*w begins at": _file([], [_tensor("w", offset=64), _tensor("v")]),
}


@pytest.mark.parametrize("message", _MALFORMED)
def test_a_malformed_file_is_refused_by_name(tmp_path: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        _read(tmp_path / "f.gguf", _MALFORMED[message])
    assert "f.gguf" in caught.value.message


def test_counts_are_refused_before_any_memory_is_taken(tmp_path: Path) -> None:
    strings = _key("s", 9, struct.pack("<IQ", 8, 4_000_000))
    (tmp_path / "f.gguf").write_bytes(_file([strings], []))
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError):
            read_gguf(tmp_path / "f.gguf")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda file: file.integer("absent"), "missing key .*: absent"),
        (lambda file: file.integer("text"), "text is str"),
        (lambda file: file.integer("flag"), "flag is bool"),
        (lambda file: file.number("nan"), "nan is float"),
        (lambda file: file.flag("one", default=False), "one is int"),
        (lambda file: file.text("one"), "one is int"),
        (lambda file: file.text("bytes"), "bytes is an array"),
        (lambda file: file.strings("bytes"), "bytes is an array"),
        (lambda file: file.strings("bad"), r"not UTF-8 .*: bad\[1\]"),
        (lambda file: file.numbers("bytes", float), "bytes is an array"),
        (lambda file: file.find_strings("one", frozenset()), "one is int"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_key(tmp_path: Path, read, message: str) -> None:
    keys = [
        _key("text", 8, _string(b"1")),
        _key("flag", 7, b"\1"),
        _key("one", 4, struct.pack("<I", 1)),
        _key("nan", 6, struct.pack("<f", float("nan"))),
        _key("bytes", 9, struct.pack("<IQ", 0, 2) + b"ab"),
        _key("bad", 9, struct.pack("<IQ", 8, 2) + _string(b"a") + _string(b"\xff")),
    ]
    file = _read(tmp_path / "f.gguf", _file(keys, []))
    with pytest.raises(CheckpointError, match=message):
        read(file)


def _consistent(path: Path) -> None:
    """Read everything that a checkpoint is made of; CheckpointError is the one exception allowed."""
    try:
        file = read_gguf(path)
        config = gguf_names.read_config(file)
        gguf_names.read_tensors(file, config)
        gguf_text.read_end_ids(file)
        gguf_text.read_tokenizer(file)
    except CheckpointError:
        return
    for tensor in file.tensors:
        assert len(file.data(tensor)) == tensor.end - tensor.start


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_truncated_file_never_raises_anything_but_a_checkpoint_error(write_gguf, data) -> None:
    path = write_gguf("gemma3", edit=lambda writer: writer.add_sliding_window(8))
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(CheckpointError):
        read_gguf(path)


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_flipped_header_bytes_give_an_error_or_a_consistent_file(write_gguf, data) -> None:
    path = write_gguf("gemma3", edit=lambda writer: writer.add_sliding_window(8))
    content = bytearray(path.read_bytes())
    header_bytes = read_gguf(path).header_bytes
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, header_bytes - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    _consistent(path)


def test_a_big_endian_file_of_the_reference_writer_is_refused(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "f.gguf", "llama", endianess=GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match="big-endian"):
        read_gguf(tmp_path / "f.gguf")


def test_arrays_stay_undecoded_until_asked_for(write_gguf) -> None:
    assert isinstance(read_gguf(write_gguf()).values["tokenizer.ggml.tokens"], GgufArray)


def test_a_format_that_is_not_known_is_unsupported_not_broken(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="hint: known formats: F32, F16, BF16, Q4_0"):
        _read(tmp_path / "f.gguf", _file([], [_tensor("w", (256,), kind=20)]))
