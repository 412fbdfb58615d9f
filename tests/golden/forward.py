"""Our model without engine: a checkpoint's logits for one prompt, computed in given chunks."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dayzero.checkpoint.open import open_checkpoint
from dayzero.kernels.kv_format import head_bytes
from dayzero.kernels.registry import select, select_reference
from dayzero.kv.groups import CacheGroup
from dayzero.kv.store import KVStore
from dayzero.models.loader import load
from dayzero.models.registry import family_of
from dayzero.models.step import Hidden, Step

BLOCK_SIZE = 16


class Model:
    """Opened, dequantised and loaded as the engine does it."""

    def __init__(self, path: Path, dtype: torch.dtype, *, reference: bool = False) -> None:
        checkpoint = open_checkpoint(path)
        self.family = family_of(checkpoint.family)
        self.shape = self.family.parse(checkpoint.config)
        self.kernels = select_reference() if reference else select(dtype, self.shape.heads)
        self.weights = load(self.family, self.shape, checkpoint.tensors, dtype, self.kernels)
        self.dtype = dtype

    def logits(self, tokens: Sequence[int], chunks: Sequence[int]) -> Tensor:
        """[T, V] float32, chunk after chunk through one KV store."""
        with torch.inference_mode():
            hidden = self.hidden(tokens, chunks)
            return torch.cat([self.family.logits(self.weights, part.rows, self.kernels).float() for part in hidden])

    def hidden(self, tokens: Sequence[int], chunks: Sequence[int], taps: Sequence[int] = ()) -> list[Hidden]:
        """What the model returns for each chunk, every row sampled."""
        assert sum(chunks) == len(tokens)
        groups = self.family.groups(self.shape, head_bytes(self.shape.heads.head_dim, self.dtype))
        num_blocks = -(-len(tokens) // BLOCK_SIZE) + 1
        store = KVStore(
            groups,
            [num_blocks] * len(groups),
            BLOCK_SIZE,
            self.shape.heads,
            self.dtype,
        )
        table = list(range(num_blocks - 1, 0, -1))
        result, start = [], 0
        with torch.inference_mode():
            for length in chunks:
                step = self._step(tokens, start, length, groups, table)
                result.append(self.family.forward(self.weights, step, store, self.kernels, taps))
                start += length
        return result

    def _step(
        self, tokens: Sequence[int], start: int, length: int, groups: Sequence[CacheGroup], table: list[int]
    ) -> Step:
        positions = range(start, start + length)
        slots = torch.tensor([table[p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE for p in positions])
        return Step(
            tokens=torch.tensor(tokens[start : start + length]),
            positions=torch.tensor(positions),
            slots=tuple(slots for _ in groups),
            plans=tuple(
                self.kernels.plan_attention([0, length], [start], [table], BLOCK_SIZE, group.window) for group in groups
            ),
            sample_at=torch.arange(length),
        )
