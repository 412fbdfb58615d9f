"""In which precision products are computed, and the weights that this takes.

bf16       dequantised, rounded once
int8       8 bits with a scale by 32, rotated as the activations then are; activations int8 by groups of 32
nvfp4      4 bits with a scale by 16, exact in bfloat16; activations bfloat16
as-stored  the codes of GGUF, AWQ or GPTQ as they are; activations int8 by groups of 32, where Q6_K meets them of 16,
           where MXFP4 does bfloat16. What has no codes stays bf16
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import ConfigError
from dayzero.kernels.weights import GROUP, LinearForm
from dayzero.quant.codes import CODED_FORMATS, coded, stacked
from dayzero.quant.dequantize import dequantize, dequantize_into
from dayzero.quant.int8 import per_channel, rotated_by_group
from dayzero.quant.nvfp4 import nvfp4

Encode = Callable[[Sequence[StoredTensor]], list[LinearForm]]

PRECISIONS = ("auto", "bf16", "int8", "nvfp4", "as-stored")


def resolve(asked: str, stored: Mapping[str, StoredTensor]) -> str:
    """What `auto` means for a checkpoint: its own codes if it has any, else bf16.

    Raises ConfigError for `as-stored` where nothing is stored in codes.
    """
    if asked == "as-stored" and not any(tensor.format in CODED_FORMATS for tensor in stored.values()):
        formats = ", ".join(sorted({tensor.format for tensor in stored.values()}))
        raise ConfigError(
            f"precision as-stored: this checkpoint has no codes ({formats})", hint="leave out --precision"
        )
    if asked != "auto":
        return asked
    return "as-stored" if any(tensor.format in CODED_FORMATS for tensor in stored.values()) else "bf16"


BITS = {"bf16": 16.0, "int8": 8.5, "nvfp4": 4.5}  # of a weight


def weight_bytes(precision: str, stored: Iterable[StoredTensor], dtype: torch.dtype) -> int:
    """About what the weights of a checkpoint take: matrices in the precision, the rest in `dtype`."""
    bits = BITS.get(precision, dtype.itemsize * 8)
    return sum(
        tensor.num_bytes
        if precision == "as-stored"
        else int(tensor.num_weights * (bits / 8 if len(tensor.shape) > 1 else dtype.itemsize))
        for tensor in stored
    )


def dense(stored: Sequence[StoredTensor], dtype: torch.dtype) -> torch.Tensor:
    """Tensors dequantised, one under the other."""
    features = [tensor.shape[0] for tensor in stored]
    result = torch.empty(sum(features), *stored[0].shape[1:], dtype=dtype)
    for tensor, rows in zip(stored, torch.split(result, features), strict=True):
        dequantize_into(tensor, rows)
    return result


def _bf16(stored: Sequence[StoredTensor]) -> list[LinearForm]:
    return [dense(stored, torch.bfloat16)]


def _int8(stored: Sequence[StoredTensor]) -> list[LinearForm]:
    """A K that is no whole number of groups has one scale for each output feature, and is not rotated."""
    dense_NK = dense(stored, torch.float32)
    return [per_channel(dense_NK) if dense_NK.shape[1] % GROUP else rotated_by_group(dense_NK)]


def _nvfp4(stored: Sequence[StoredTensor]) -> list[LinearForm]:
    """A K that is no whole number of groups stays bf16."""
    if stored[0].shape[1] % GROUP:
        return _bf16(stored)
    return [nvfp4(dense(stored, torch.float32))]


def _as_stored(stored: Sequence[StoredTensor]) -> list[LinearForm]:
    return stacked([_form(tensor) for tensor in stored])


def _form(stored: StoredTensor) -> LinearForm:
    return coded(stored) if stored.format in CODED_FORMATS else dequantize(stored, torch.bfloat16)


ENCODERS: Mapping[str, Encode] = {"bf16": _bf16, "int8": _int8, "nvfp4": _nvfp4, "as-stored": _as_stored}
