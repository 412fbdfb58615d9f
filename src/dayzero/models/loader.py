"""A checkpoint's tensors into a family's weights, every one of them accounted for."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import CheckpointError
from dayzero.kernels.registry import PreparesLinear
from dayzero.models.family import Family, TensorSpec
from dayzero.quant.dequantize import dequantize

Progress = Callable[[int, int], None]  # tensors done, tensors in all


def load(
    family: Family,
    shape: Any,
    stored: Mapping[str, StoredTensor],
    dtype: torch.dtype,
    kernels: PreparesLinear,
    progress: Progress | None = None,
) -> Any:
    """Decode each tensor when the family asks for it, so that no second copy of the model is ever held.

    Raises CheckpointError that names a missing, extra or misshapen tensor.
    """
    account(family.tensors(shape), {name: tensor.shape for name, tensor in stored.items()})
    done = 0

    def take(name: str) -> Tensor:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(stored))
        return dequantize(stored[name], dtype)

    return family.build(shape, take, kernels)


def account(table: Mapping[str, TensorSpec], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise CheckpointError unless a checkpoint holds exactly what its family expects."""
    missing = [name for name in table if name not in shapes]
    extra = [name for name in shapes if name not in table]
    for problem, names in (("missing", missing), ("not expected", extra)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise CheckpointError(
                f"tensor {problem}: {', '.join(names[:3])}{more}",
                hint="the checkpoint does not match its config; download it again, or it is a variant we do not know",
            )
    for name, spec in table.items():
        if shapes[name] != spec.shape:
            raise CheckpointError(
                f"tensor misshapen: {name} is {list(shapes[name])} (its config says {list(spec.shape)})",
                hint="the checkpoint does not match its config; download it again",
            )
