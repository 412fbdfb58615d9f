"""What a model family declares: the one registration that a new family needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor

from dayzero.kernels.registry import Kernels, LinearWeight
from dayzero.kv.groups import CacheGroup
from dayzero.models.step import Hidden, KVLayers, Step

ShardAxis = Literal["column", "row", "replicated"]
Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a checkpoint holds under a name.

    shard   how tensor parallelism cuts it: by output features (column), by input features (row), or not
    """

    shape: tuple[int, ...]
    shard: ShardAxis = "replicated"


class Take(Protocol):
    """The tensors of a checkpoint by name, each asked for once (a tied embedding twice: as a table and as the head)."""

    def __call__(self, name: str) -> Tensor:
        """In the model's dtype."""
        ...

    def linear(self, *names: str) -> LinearWeight:
        """Weights of products with the same input, one under the other, as the kernels want them."""
        ...


class Forward(Protocol):
    """One step through all layers. Pure: K and V are written to `kv`, nothing else changes."""

    def __call__(
        self, weights: Any, step: Step, kv: KVLayers, kernels: Kernels, taps: Sequence[int] = (), /
    ) -> Hidden: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The functions of one model family. Tensor names are Hugging Face's, whatever the file format.

    parse    canonical config (`checkpoint.config`) -> shape: a frozen dataclass of hyperparameters, among them `heads`,
             `vocab_size`, `hidden_size` and `max_context`; raises UnsupportedModel for a variant that is not covered
    tensors  the table of the checkpoint
    build    named tensors -> weights, among them `layers`, one for each
    groups   the cache groups, given the bytes of K or V of one head of one token
    logits   [N, E] -> [N, V]; None: an encoder, whose tokens see all of their text. Such a one keeps no KV
    """

    name: str
    parse: Callable[[Config], Any]
    tensors: Callable[[Any], dict[str, TensorSpec]]
    build: Callable[[Any, Take], Any]
    forward: Forward
    groups: Callable[[Any, int], tuple[CacheGroup, ...]] = lambda _shape, _head_bytes: ()
    logits: Callable[[Any, Tensor, Kernels], Tensor] | None = None

    @property
    def is_encoder(self) -> bool:
        """Whether it makes embeddings, and no text."""
        return self.logits is None
