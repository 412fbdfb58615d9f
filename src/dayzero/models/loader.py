"""A checkpoint's tensors into a family's weights, every one of them accounted for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

import torch
from torch import Tensor

from dayzero.checkpoint.tensor import StoredTensor
from dayzero.errors import CheckpointError
from dayzero.kernels.native.backend import NativeKernels
from dayzero.kernels.registry import Kernels, LinearWeight
from dayzero.kernels.weights import LinearForm
from dayzero.models.family import Family, TensorSpec
from dayzero.quant.dequantize import dequantize
from dayzero.quant.precision import ENCODERS, dense

Progress = Callable[[int, int], None]  # tensors done, tensors in all
WEIGHTS_AHEAD = 4  # that wait for a thread: what is said to be done nearly is


class Taken:
    """The tensors of a checkpoint as a family takes them: each decoded when it is asked for.

    No second copy of the model is ever held, and a loader may free as it goes.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredTensor],
        dtype: torch.dtype,
        prepare: Callable[[Sequence[StoredTensor]], LinearWeight],
        progress: Progress | None,
    ) -> None:
        self._stored = stored
        self._dtype = dtype
        self._prepare = prepare
        self._progress = progress
        self._seen: set[str] = set()

    def __call__(self, name: str) -> Tensor:
        """A tensor in the model's dtype."""
        return dequantize(self._take(name), self._dtype)

    def linear(self, *names: str) -> LinearWeight:
        """Weights of products with the same input, one under the other, as the kernels want them."""
        return self._prepare([self._take(name) for name in names])

    def _take(self, name: str) -> StoredTensor:
        if name not in self._seen and self._progress is not None:  # a tied embedding is taken twice
            self._progress(len(self._seen) + 1, len(self._stored))
        self._seen.add(name)
        return self._stored[name]


def load(
    family: Family,
    shape: Any,
    stored: Mapping[str, StoredTensor],
    dtype: torch.dtype,
    kernels: Kernels | NativeKernels,
    progress: Progress | None = None,
    *,
    precision: str = "bf16",
) -> Any:
    """The weights of a family. Raises CheckpointError that names a missing, extra or misshapen tensor.

    precision  of products, one of quant.precision's but `auto`; torch's kernels compute in `dtype` and ignore it
    """
    account(family.tensors(shape), {name: tensor.shape for name, tensor in stored.items()})
    if isinstance(kernels, NativeKernels):
        return _build_on_threads(family, shape, stored, dtype, kernels, progress, precision)

    def prepare(parts: Sequence[StoredTensor]) -> LinearWeight:
        return kernels.prepare_linear(dense(parts, dtype))

    # A decode is many short parallel regions, and each waits for its slowest thread: on two cores of which another
    # process wanted one, SmolLM2 took 10 s with two threads and 0.7 s with one.
    with _torch_threads(max(1, torch.get_num_threads() - 1)):
        return family.build(shape, Taken(stored, dtype, prepare, progress))


def _build_on_threads(
    family: Family,
    shape: Any,
    stored: Mapping[str, StoredTensor],
    dtype: torch.dtype,
    kernels: NativeKernels,
    progress: Progress | None,
    precision: str,
) -> Any:
    """Several weights at once, each encoded and packed by one thread: no region waits for its slowest thread."""
    ahead = BoundedSemaphore(WEIGHTS_AHEAD)

    def prepare(parts: Sequence[StoredTensor]) -> LinearWeight:
        def encode() -> Sequence[LinearForm]:
            ahead.release()
            return ENCODERS[precision](parts)

        ahead.acquire()
        return kernels.prepare_linear_on(threads, sum(part.shape[0] for part in parts), encode)

    with _torch_threads(1), ThreadPoolExecutor(kernels.num_threads) as threads:
        return family.build(shape, Taken(stored, dtype, prepare, progress))


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
