"""The KV tensors: one pool of blocks for each layer, shared by all requests.

Knows nothing of who holds a block. Block 0 is never handed out: it stays zero, and tables point to it where a window
has moved on or a call is padded, so that what is masked is at least finite.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.kv_format import head_elements
from dayzero.kv.groups import CacheGroup

POISON_BYTE = 0xFF  # NaN in every dtype that is made of such bytes


class KVStore:
    """[B, S, 2, G, X] for each layer (`kernels.kv_format`). Memory is committed by the system as blocks are touched."""

    def __init__(
        self,
        groups: Sequence[CacheGroup],
        num_blocks: Sequence[int],
        block_size: int,
        heads: HeadLayout,
        dtype: torch.dtype,
    ) -> None:
        assert len(groups) == len(num_blocks), (len(groups), len(num_blocks))
        self._groups = tuple(groups)
        self._layers: dict[int, Tensor] = {}
        width = head_elements(heads.head_dim, dtype)
        for group, blocks in zip(groups, num_blocks, strict=True):
            for layer in group.layers:
                self._layers[layer] = _zeros((blocks, block_size, 2, heads.num_kv_heads, width), dtype)

    def layer(self, index: int) -> Tensor:
        """The pool of one layer."""
        return self._layers[index]

    def clear(self, layers: Sequence[int], blocks: Sequence[int]) -> None:
        """Zero these blocks, which a former holder may have left with values that are not finite."""
        at = torch.tensor(blocks)
        for layer in layers:
            self._layers[layer].index_fill_(0, at, 0)

    def poison(self, group: int, block: int) -> None:
        """Fill a block that nobody holds with NaN, or codes with a scale of NaN, so that no result survives reading it.

        For tests: as `freed` of a KVCache, this finds what reads a block after it was given back.
        """
        for layer in self._groups[group].layers:
            self._layers[layer][block].view(torch.uint8).fill_(POISON_BYTE)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that cost no memory until they are written: torch.zeros would touch every page of the pool."""
    return torch.from_numpy(np.zeros(math.prod(shape) * dtype.itemsize, dtype=np.uint8)).view(dtype).view(shape)
