"""A batch as tensors: the only thing a model sees besides its weights and the KV store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from dayzero.kernels.registry import AttentionPlan


@dataclass(frozen=True, slots=True)
class Step:
    """T tokens of any number of requests.

    tokens        [T] int64
    positions     [T] int64, each token's place in its own request
    slots         one [T] int64 for each cache group: where the token's K and V go
    plans         one attention plan for each cache group
    sample_at     [N] int64, rows whose hidden state is wanted
    query_starts  request r owns rows [query_starts[r], query_starts[r + 1]); what an encoder needs instead of plans
    """

    tokens: Tensor
    positions: Tensor
    slots: tuple[Tensor, ...]
    plans: tuple[AttentionPlan, ...]
    sample_at: Tensor
    query_starts: Sequence[int] = ()


class KVLayers(Protocol):
    """What a model needs of the KV store."""

    def layer(self, index: int) -> Tensor:
        """[B, S, 2, G, X], as `kernels.kv_format` says."""
        ...


@dataclass(frozen=True, slots=True)
class Hidden:
    """What a forward pass returns.

    rows   [N, E] after the final norm, at `sample_at`
    taps   the residual stream after each layer that was asked for, [T, E]
    """

    rows: Tensor
    taps: tuple[Tensor, ...] = ()
