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


def _op(reference_op: Callable[..., Any], float32: float, bfloat16: float) -> Op:
    return Op(reference_op.__name__, reference_op, {"float32": float32, "bfloat16": bfloat16})


_OF_BOTH = (_op(reference.linear, 1e-5, 1e-2), _op(reference.embedding, 0.0, 0.0))
_OF_DECODERS = (
    _op(reference.rms_norm, 1e-5, 1e-2),
    _op(reference.rotary_at, 0.0, 0.0),
    _op(reference.rope_and_write_kv, 1e-5, 1e-2),
    _op(reference.paged_attention, 1e-5, 2e-2),
    _op(reference.silu_mul, 1e-5, 1e-2),
    _op(reference.gelu_mul, 1e-5, 1e-2),
)
_OF_ENCODERS = (
    _op(reference.layer_norm, 1e-5, 1e-2),
    _op(reference.gelu, 1e-5, 1e-2),
    _op(reference.span_attention, 1e-5, 2e-2),
)
DECODER_OPS = _OF_BOTH + _OF_DECODERS
ENCODER_OPS = _OF_BOTH + _OF_ENCODERS
OPS = _OF_BOTH + _OF_DECODERS + _OF_ENCODERS
