"""A stored tensor as a torch tensor.

Decoded slice by slice straight into the result, so the peak above the result is a few MiB. The result is contiguous
and owns its memory: no view of the file's mapping survives, and the checkpoint can be dropped after loading.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from dayzero.checkpoint.packing import PACKINGS
from dayzero.checkpoint.tensor import FORMATS, PlusOne, RotaryRows, StoredTensor, Transform
from dayzero.kernels.weights import Grouped
from dayzero.quant.decoders import DECODERS
from dayzero.quant.packed import unpacked

SLICE_WEIGHTS = 1 << 19  # 2 MiB of fp32 a temporary
_SAME = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def dequantize(stored: StoredTensor, dtype: torch.dtype) -> Tensor:
    """Decode in fp32, undo the converter's transform, round once to `dtype`."""
    result = torch.empty(stored.shape, dtype=dtype)
    dequantize_into(stored, result)
    return result


def dequantize_into(stored: StoredTensor, result: Tensor) -> None:
    """The same into a contiguous tensor of its shape."""
    if _SAME.get(stored.format) is result.dtype and stored.transform is None:
        _bytes_of(result)[:] = stored.data
        return
    if stored.format in PACKINGS:
        _dequantize_codes(unpacked(stored), result)
        return
    rows = result.view(stored.shape[0] if stored.shape else 1, -1)
    rows_per_slice = _rows_per_slice(rows.shape[0], rows.shape[1], stored.transform)
    row_bytes = len(stored.data) // rows.shape[0]
    scratch = torch.empty(min(rows_per_slice, rows.shape[0]) * row_bytes, dtype=torch.uint8)
    for start in range(0, rows.shape[0], rows_per_slice):
        target = rows[start : start + rows_per_slice]
        packed = scratch[: len(target) * row_bytes]
        _bytes_of(packed)[:] = stored.data[start * row_bytes : start * row_bytes + len(packed)]
        blocks = packed.view(-1, FORMATS[stored.format].block_bytes)
        _store(DECODERS[stored.format](blocks).view(target.shape), target, stored)


def _dequantize_codes(form: Grouped, result: Tensor) -> None:
    """scale * (code - zero), rounded once."""
    for rows in row_slices(*form.codes.shape):
        codes = form.codes[rows].view(-1, form.scales.shape[1], form.group).float()
        zeros = 2 ** (form.bits - 1) if form.zeros is None else form.zeros[rows].unsqueeze(-1)
        weights = (codes - zeros).mul_(form.scales[rows].float().unsqueeze(-1)).flatten(1)
        if form.order is None:
            result[rows] = weights
        else:
            result[rows, form.order] = weights.to(result.dtype)


def row_slices(num_rows: int, row_weights: int) -> Iterator[slice]:
    """All rows, as many at once as work on a weight in several passes should take: they stay in the cache."""
    step = max(1, SLICE_WEIGHTS // row_weights)
    return (slice(start, start + step) for start in range(0, num_rows, step))


def _bytes_of(tensor: Tensor) -> memoryview:
    """The tensor's own memory. Copying into it takes a read-only source, which torch.frombuffer would warn of."""
    return tensor.view(-1).view(torch.uint8).numpy().data


def _rows_per_slice(num_rows: int, row_weights: int, transform: Transform | None) -> int:
    """Rows decoded at once: whole heads where rows within a head change places."""
    unit = num_rows // transform.num_heads if isinstance(transform, RotaryRows) else 1
    return max(1, SLICE_WEIGHTS // (unit * row_weights)) * unit


def _store(weights: Tensor, target: Tensor, stored: StoredTensor) -> None:
    """Undo the transform and round: weights [rows, K] fp32 -> target [rows, K]."""
    transform = stored.transform
    if isinstance(transform, PlusOne):
        target.copy_(weights - 1)
    elif isinstance(transform, RotaryRows):
        half = stored.shape[0] // transform.num_heads // 2
        pairs = weights.view(-1, half, 2, weights.shape[1])
        target.view(-1, 2, half, weights.shape[1]).copy_(pairs.transpose(1, 2))
    else:
        target.copy_(weights)
