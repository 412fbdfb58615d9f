"""What was asked, weighed against checkpoint and machine: pure arithmetic, every refusal with both numbers.

Knows nothing of tensors. What comes out is frozen into the EngineSpec and printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from dayzero.core.spec import EngineConfig
from dayzero.engine.machine import Machine
from dayzero.errors import ConfigError
from dayzero.kv.groups import CacheGroup

KV_SHARE = 0.5  # of the memory that is free after the weights; the rest is the user's
OVERHEAD_BYTES = 450 * 2**20  # interpreter, torch, gateway, activations: bench/bench_serve.py


@dataclass(frozen=True, slots=True)
class Memory:
    """KV memory, and what it holds."""

    max_context: int
    num_blocks: tuple[int, ...]  # per cache group, the null block included
    kv_bytes: int

    @property
    def kv_blocks(self) -> int:
        """Of the first cache group, the null block not counted; 0: an encoder, which has none."""
        return self.num_blocks[0] - 1 if self.num_blocks else 0


def for_encoder(config: EngineConfig, model_context: int) -> EngineConfig:
    """What was asked, of a model that keeps no KV and takes a text in one step. Refuses what it has no use of."""
    for flag, value in (
        ("--kv-memory", config.kv_memory_bytes),
        ("--kv-dtype", None if config.kv_dtype == "auto" else config.kv_dtype),
        (
            "kv_memory of an endpoint",
            next((one.kv_memory_bytes for one in config.endpoints if one.kv_memory_bytes), None),
        ),
    ):
        if value is not None:
            raise ConfigError(f"{flag} beside an encoder, which keeps no KV", hint="leave it out")
    context = min(config.max_context or model_context, model_context)
    texts = [min(one.max_context or context, context) for one in config.endpoints] or [context]  # one of each
    step_tokens = max(config.max_step_tokens, sum(texts))
    return msgspec.structs.replace(config, max_step_tokens=step_tokens, prefix_cache=False)


def memory(
    config: EngineConfig, groups: Sequence[CacheGroup], *, model_context: int, weight_bytes: int, machine: Machine
) -> Memory:
    """Size the pool and the served context, of a server or of the one endpoint that is left in its configuration.

    Without `kv_memory_bytes` the pool takes KV_SHARE of what is free after the weights, and never more than all
    requests could fill. Without `max_context` the context is the model's, or what the pool holds if that is less.
    """
    if config.max_context is not None and config.max_context > model_context:
        raise ConfigError(
            f"--max-context too large: {config.max_context} (the model was trained for {model_context})",
            hint="lower it",
        )
    asked_context = config.max_context or model_context
    if not groups:
        return Memory(asked_context, (), 0)
    where, flag, hint = _words(config)
    free_bytes = free_beside(weight_bytes, machine)
    budget = config.kv_memory_bytes if config.kv_memory_bytes is not None else int(free_bytes * KV_SHARE)
    tokens = min(_tokens_within(budget, groups, config), config.max_requests * _rounded(asked_context, config))
    if tokens < asked_context and config.max_context is not None:
        raise ConfigError(
            f"{where}KV memory too small: it holds {tokens} tokens ({flag} asks for {asked_context})",
            hint=f"lower {flag}, or {hint}",
        )
    if tokens < 2 * config.block_size and config.kv_memory_bytes is not None:
        raise ConfigError(
            f"{where}KV memory too small: {budget >> 10} KiB holds {tokens} tokens (at least {2 * config.block_size})",
            hint=hint,
        )
    if tokens < 2 * config.block_size:
        raise ConfigError(
            f"not enough memory: {machine.free_bytes >> 20} MiB free (the model alone needs {weight_bytes >> 20} MiB)",
            hint="free some memory or serve a smaller model",
        )
    blocks = tuple(_blocks(group, tokens, config) for group in groups)
    kv_bytes = sum(n * config.block_size * g.bytes_per_token for n, g in zip(blocks, groups, strict=True))
    return Memory(min(asked_context, tokens), blocks, kv_bytes)


def free_beside(weight_bytes: int, machine: Machine) -> int:
    """Memory that is free once the model is loaded."""
    return max(0, machine.free_bytes - weight_bytes - OVERHEAD_BYTES)


def _words(config: EngineConfig) -> tuple[str, str, str]:
    """How a refusal names the endpoint, its context and what to do."""
    if not config.endpoints:
        return "", "--max-context", "give more memory with --kv-memory"
    return f"endpoint {config.endpoints[0].names[0]}: ", "max_context", "give it more kv_memory"


def _rounded(tokens: int, config: EngineConfig) -> int:
    return -(-tokens // config.block_size) * config.block_size


def _blocks(group: CacheGroup, tokens: int, config: EngineConfig) -> int:
    """Blocks of a group when the pool is to hold `tokens`. A window never needs more than its requests can use."""
    blocks = tokens // config.block_size
    if group.window is not None:
        held = -(-(group.window + config.max_step_tokens) // config.block_size) + 2
        blocks = min(blocks, config.max_requests * held)
    return blocks + 1


def _tokens_within(budget: int, groups: Sequence[CacheGroup], config: EngineConfig) -> int:
    """The most tokens, in whole blocks, whose blocks cost at most `budget` bytes."""

    def cost(tokens: int) -> int:
        return sum(_blocks(g, tokens, config) * config.block_size * g.bytes_per_token for g in groups)

    low, high = 0, budget // max(1, min(g.bytes_per_token for g in groups)) // config.block_size
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle * config.block_size) <= budget else (low, middle - 1)
    return low * config.block_size
