from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from dayzero.checkpoint.tensor import FORMATS, StoredTensor, stored_bytes


def test_the_table_of_formats_agrees_with_ggml() -> None:
    for name, layout in FORMATS.items():
        assert (layout.block_weights, layout.block_bytes) == GGML_QUANT_SIZES[GGMLQuantizationType[name]]


def test_bytes_of_a_tensor_follow_from_its_shape() -> None:
    assert stored_bytes((3, 64), "Q4_0") == 3 * 2 * 18
    assert stored_bytes((), "F32") == 4


def test_a_row_that_is_not_whole_blocks_has_no_size() -> None:
    assert stored_bytes((32, 33), "Q8_0") is None
    assert stored_bytes((), "Q8_0") is None


def test_weights_are_counted_over_all_axes() -> None:
    assert StoredTensor("w", (2, 3, 4), "F16", memoryview(bytes(48))).num_weights == 24
