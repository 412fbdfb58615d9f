"""A tensor as it lies on disk: name, shape, format, bytes. Decoding it is `quant`'s work.

Knows nothing of torch; the bytes are a view of the file's mapping and keep that mapping alive.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Format:
    """A row of K weights is K / `block_weights` blocks of `block_bytes` bytes."""

    block_weights: int
    block_bytes: int


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "F32": Format(1, 4),
        "F16": Format(1, 2),
        "BF16": Format(1, 2),
        "Q4_0": Format(32, 18),
        "Q4_1": Format(32, 20),
        "Q5_0": Format(32, 22),
        "Q5_1": Format(32, 24),
        "Q8_0": Format(32, 34),
        "Q4_K": Format(256, 144),
        "Q5_K": Format(256, 176),
        "Q6_K": Format(256, 210),
        "MXFP4": Format(32, 17),
    }
)


@dataclass(frozen=True, slots=True)
class RotaryRows:
    """The rows of each head are stored as (pair, half) and wanted as (half, pair).

    llama.cpp rotates neighbouring rows, Hugging Face rotates row i with row i + D / 2; converters of the llama
    architecture therefore reorder the rows of q and k.
    """

    num_heads: int


@dataclass(frozen=True, slots=True)
class PlusOne:
    """Stored as 1 + w; wanted as w (gemma's norms)."""


Transform = RotaryRows | PlusOne


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a checkpoint.

    name        Hugging Face's, e.g. `model.layers.0.self_attn.q_proj.weight`
    shape       row-major, as torch has it; the last axis is a whole number of blocks
    format      a key of `FORMATS`, or one of `packing`'s; of a part also an integer type of safetensors
    data        read-only view of the file's mapping, exactly the tensor's bytes
    transform   what the file's converter did and the reader must undo
    parts       what the file keeps apart of a packed weight's codes: scales, zeros
    """

    name: str
    shape: tuple[int, ...]
    format: str
    data: memoryview
    transform: Transform | None = None
    parts: Mapping[str, "StoredTensor"] = field(default_factory=dict)

    @property
    def num_weights(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """On disk, its parts included."""
        return len(self.data) + sum(part.num_bytes for part in self.parts.values())


def stored_bytes(shape: tuple[int, ...], format: str) -> int | None:  # noqa: A002 - the field's word
    """Bytes that a tensor takes on disk; None if its last axis is not a whole number of blocks."""
    layout = FORMATS[format]
    if shape and shape[-1] % layout.block_weights:
        return None
    if not shape and layout.block_weights != 1:
        return None
    return math.prod(shape) // layout.block_weights * layout.block_bytes
