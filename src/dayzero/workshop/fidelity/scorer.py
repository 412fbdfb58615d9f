"""A configuration as a function from tokens to logits: the model as the engine loads it, below the sampler."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from dayzero.checkpoint.tensor import StoredTensor
from dayzero.core.spec import EngineConfig
from dayzero.engine.build import plan_engine
from dayzero.engine.model import Layout, Model, bind
from dayzero.errors import ConfigError
from dayzero.kernels.kv_format import KV_DTYPES
from dayzero.kernels.registry import Kernels
from dayzero.kv.store import KVStore
from dayzero.models.loader import load

SLICE_ROWS = 128  # of logits held at once, by each model: 25 MB at a vocabulary of 49,152


class Scorer(Protocol):
    """Whatever can say what comes after every token; another engine can, too."""

    def logits(self, tokens: Sequence[int]) -> Iterator[Tensor]:
        """[SLICE_ROWS, V] and at last what is left: of the rows after each token. Each is valid until the next."""
        ...


@dataclass(frozen=True, slots=True)
class ModelScorer:
    """A model and the KV blocks of one passage.

    num_blocks    of each cache group, the null block not counted
    chunk_tokens  the passage is computed in chunks of so many tokens, as prompts are
    """

    model: Model
    num_groups: int
    num_blocks: int
    block_size: int
    chunk_tokens: int

    def logits(self, tokens: Sequence[int]) -> Iterator[Tensor]:
        """Each slice is the caller's own until the next is asked for; several scorers may share a model."""
        rows_TE = self._rows(tokens)
        for start in range(0, len(rows_TE), SLICE_ROWS):
            yield self.model.logits(rows_TE[start : start + SLICE_ROWS])

    def in_chunks(self, chunk_tokens: int) -> "ModelScorer":
        """The same model, computing passages in other chunks."""
        return replace(self, chunk_tokens=chunk_tokens)

    def _rows(self, tokens: Sequence[int]) -> Tensor:
        assert len(tokens) <= self.num_blocks * self.block_size, (len(tokens), self.num_blocks)
        parts = []
        for start in range(0, len(tokens), self.chunk_tokens):
            chunk = list(tokens[start : start + self.chunk_tokens])
            layout = Layout(
                tokens=chunk,
                sample_at=range(len(chunk)),
                query_starts=[0, len(chunk)],
                first_positions=[start],
                block_tables=[[list(range(1, self.num_blocks + 1))]] * self.num_groups,
            )
            parts.append(self.model.forward(layout).rows.clone())
        return torch.cat(parts)


def open_scorer(
    config: EngineConfig,
    *,
    passage_tokens: int,
    chunk_tokens: int = 256,
    weights: Mapping[str, StoredTensor] | None = None,
    kernels: Kernels | None = None,
) -> ModelScorer:
    """Load a model for passages of at most `passage_tokens`. Raises ConfigError or CheckpointError.

    weights  instead of the checkpoint's own
    kernels  instead of those that the configuration leads to
    """
    plan = plan_engine(config)
    if plan.family.is_encoder:
        raise ConfigError("this model makes embeddings, not text", hint="there are no logits of it to compare")
    if passage_tokens > plan.shape.max_context:
        raise ConfigError(
            f"passages too long: {passage_tokens} tokens (the model's context: {plan.shape.max_context})",
            hint="cut them shorter",
        )
    chosen = kernels or plan.kernels
    stored = plan.checkpoint.tensors if weights is None else weights
    loaded = load(plan.family, plan.shape, stored, plan.dtype, chosen, precision=plan.precision)
    num_blocks = -(-passage_tokens // config.block_size)
    blocks = [num_blocks + 1] * len(plan.groups)
    store = KVStore(plan.groups, blocks, config.block_size, plan.shape.heads, KV_DTYPES[plan.kv_dtype])
    model = bind(plan.family, loaded, chosen, store, plan.groups, config.block_size)
    return ModelScorer(model, len(plan.groups), num_blocks, config.block_size, chunk_tokens)
