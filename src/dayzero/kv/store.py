"""The KV tensors: one pool of blocks for each layer, shared by all requests.

Knows nothing of who holds a block. Block 0 is never handed out: it stays zero, and tables point to it where a window
has moved on or a call is padded, so that what is masked is at least finite.
"""

import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.kv_format import head_elements
from dayzero.kv.groups import CacheGroup

MADV_POPULATE_WRITE = 23  # of Linux; Python has no name for it
POISON_BYTE = 0xFF  # NaN in every dtype that is made of such bytes


class KVStore:
    """[B, S, 2, G, X] for each layer (`kernels.kv_format`). Memory comes as blocks are touched, unless committed."""

    def __init__(
        self,
        groups: Sequence[CacheGroup],
        num_blocks: Sequence[int],
        block_size: int,
        heads: HeadLayout,
        dtype: torch.dtype,
        *,
        committed: bool = False,
    ) -> None:
        """committed: take all memory from the system now, so that no step waits for a page that nobody touched yet."""
        assert len(groups) == len(num_blocks), (len(groups), len(num_blocks))
        self._groups = tuple(groups)
        self._layers: dict[int, Tensor] = {}
        width = head_elements(heads.head_dim, dtype)
        for group, blocks in zip(groups, num_blocks, strict=True):
            for layer in group.layers:
                self._layers[layer] = _zeros(
                    (blocks, block_size, 2, heads.num_kv_heads, width), dtype, committed=committed
                )

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


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, *, committed: bool) -> Tensor:
    """Zeros that cost no memory until they are written, unless committed: torch.zeros would touch every page."""
    count = math.prod(shape)
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    zeros = torch.frombuffer(memory, dtype=torch.uint8)[: count * dtype.itemsize].view(dtype).view(shape)
    if committed:
        try:
            memory.madvise(MADV_POPULATE_WRITE)
        except OSError:  # Linux before 5.14
            zeros.zero_()
    return zeros
