"""How K and V are stored: as numbers, or as int8 codes with one float32 scale for each token, head, and K or V.

A layer's KV is one tensor [B, S, 2, G, X], a block of which is one piece of memory. X is D, or D + 4 bytes where there
are codes: a head's scale lies behind its codes. That is what the references read and write; how a kernel arranges the
bytes of a block is its own affair.
"""

import torch
from torch import Tensor

KV_DTYPES = {"bf16": torch.bfloat16, "int8": torch.int8, "float32": torch.float32}
SCALE_BYTES = 4
MOST_CODE = 127  # symmetric
LEAST_LARGEST = 1e-30  # a head whose numbers are all smaller counts as 0: its scale could not be divided by


def head_elements(head_dim: int, dtype: torch.dtype) -> int:
    """X: what K or V of one token and head take, in elements of the dtype."""
    return head_dim + SCALE_BYTES if dtype is torch.int8 else head_dim


def head_bytes(head_dim: int, dtype: torch.dtype) -> int:
    """The same in bytes."""
    return head_elements(head_dim, dtype) * dtype.itemsize


def head_dim_of(kv_BS2GX: Tensor) -> int:
    """D of a layer's KV."""
    return kv_BS2GX.shape[-1] - (SCALE_BYTES if kv_BS2GX.dtype is torch.int8 else 0)


def encode(x: Tensor, dtype: torch.dtype) -> Tensor:
    """[..., D] -> [..., X]: as stored.

    int8: scale = the largest size among D numbers / 127, codes rounded to nearest; a head that holds a number which is
    not finite gets the scale NaN, and with it is lost as a whole.
    """
    if dtype is not torch.int8:
        return x.to(dtype)
    x = x.float()
    largest = x.abs().amax(-1, keepdim=True)
    factor = torch.where(largest > LEAST_LARGEST, MOST_CODE / largest, 0.0)
    codes = (x * factor).nan_to_num().round().to(torch.int8)
    scale = largest / MOST_CODE + (x * 0).sum(-1, keepdim=True)
    return torch.cat([codes, scale.view(torch.int8)], dim=-1)


def decode(stored: Tensor) -> Tensor:
    """[..., X] -> [..., D] float32."""
    if stored.dtype is not torch.int8:
        return stored.float()
    codes, scale = stored[..., :-SCALE_BYTES], stored[..., -SCALE_BYTES:]
    return codes.float() * scale.contiguous().view(torch.float32)
