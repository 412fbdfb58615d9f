"""AWQ's and GPTQ's packed weights as codes, zeros and scales. How they lie in a file: `checkpoint.packing`.

AWQ    words of 32 bits hold eight codes along N, from the lowest nibble columns 0 2 4 6 1 3 5 7; zeros likewise
GPTQ   words hold eight codes along K and eight zeros along N, in order. A zero is stored less one, by a subtraction
       from the whole word: a zero of 0 borrows from its neighbour, and adding to the whole word undoes that. `GPTQ v2`
       stores zeros as they are. g_idx names the group of each input: groups are whole, but may be scattered along K
"""

import torch
from torch import Tensor

from dayzero.checkpoint.packing import AWQ, GPTQ
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import CheckpointError
from dayzero.kernels.weights import GROUPS, Grouped

_NIBBLE_OF_COLUMN = [0, 4, 1, 5, 2, 6, 3, 7]  # of AWQ
_ONES = 0x11111111
_DTYPES = {"I32": torch.int32, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def unpacked(stored: StoredTensor) -> Grouped:
    """The codes of a packed weight [N, K]. A scale that float16 does not hold is rounded to it."""
    features, inner = stored.shape
    words = _copied(stored, "I32").view(-1, features // 8 if stored.format == AWQ else features)
    nibbles = _nibbles(words)
    if stored.format == AWQ:
        codes = nibbles[..., _NIBBLE_OF_COLUMN].view(inner, features).T.contiguous()
    else:
        codes = nibbles.permute(1, 0, 2).reshape(features, inner)
    scales = _copied(stored.parts["scales"]).view(-1, features).half()
    zeros = _zeros(stored, scales.shape)
    order = _order(stored, len(scales))
    if order is not None:
        codes = codes[:, order]
    group = inner // len(scales)
    known = next(size for size in sorted(GROUPS, reverse=True) if group % size == 0)
    return Grouped(
        4,
        codes,
        scales.T.repeat_interleave(group // known, dim=1),
        None if bool((zeros == 8).all()) else zeros.T.repeat_interleave(group // known, dim=1),
        order=order,
    )


def _zeros(stored: StoredTensor, shape: torch.Size) -> Tensor:
    """[groups, N] uint8."""
    words = _copied(stored.parts["qzeros"]).view(shape[0], -1)
    nibbles = _nibbles(words + _ONES if stored.format == GPTQ else words)
    return (nibbles[..., _NIBBLE_OF_COLUMN] if stored.format == AWQ else nibbles).reshape(shape)


def _order(stored: StoredTensor, num_groups: int) -> Tensor | None:
    """The inputs, group after group, ascending within each; None if they lie so already."""
    if "g_idx" not in stored.parts:
        return None
    group_of = _copied(stored.parts["g_idx"]).long()
    order = torch.argsort(group_of, stable=True)
    inner = len(order)
    if not torch.equal(group_of[order], torch.arange(inner) // (inner // num_groups)):
        raise CheckpointError(
            f"groups of {stored.name}: its g_idx does not give {inner // num_groups} inputs to each of {num_groups}",
            hint="download the checkpoint again, or quantize the model again with groups of one size",
        )
    return None if torch.equal(order, torch.arange(inner)) else order.int()


def _nibbles(words: Tensor) -> Tensor:
    """[A, B] int32 -> [A, B, 8] uint8, the lowest first."""
    quads = words.contiguous().view(torch.uint8).view(*words.shape, 4)
    return torch.stack((quads & 15, quads >> 4), dim=-1).flatten(-2)


def _copied(stored: StoredTensor, kind: str = "") -> Tensor:
    """A tensor's numbers, flat; of `kind` where its format says how it is packed instead."""
    flat = torch.empty(len(stored.data), dtype=torch.uint8)
    flat.numpy().data[:] = stored.data
    return flat.view(_DTYPES[kind or stored.format])
