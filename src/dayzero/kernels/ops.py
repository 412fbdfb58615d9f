"""The ops of a step: what each promises, and the reference that defines it.

A kernel takes tensors and scalars only. Row invariance is part of every contract: the bits of a row depend neither on
how many rows, nor on which, ride along.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dayzero.kernels import reference


@dataclass(frozen=True, slots=True)
class Op:
    """`relative_error` bounds |kernel - reference| / max |reference|, per dtype name."""

    name: str
    reference: Callable[..., Any]
    relative_error: dict[str, float]


OPS = tuple(
    Op(reference_op.__name__, reference_op, {"float32": float32, "bfloat16": bfloat16})
    for reference_op, float32, bfloat16 in (
        (reference.linear, 1e-5, 1e-2),
        (reference.embedding, 0.0, 0.0),
        (reference.rms_norm, 1e-5, 1e-2),
        (reference.rotary_at, 0.0, 0.0),
        (reference.rope_and_write_kv, 1e-5, 1e-2),
        (reference.paged_attention, 1e-5, 2e-2),
        (reference.silu_mul, 1e-5, 1e-2),
        (reference.gelu_mul, 1e-5, 1e-2),
    )
)
