"""What each endpoint has of the server's requests, steps and KV memory: pure arithmetic, refusals with their numbers.

Knows nothing of tensors. What comes out is frozen into the EngineSpec and printed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from dayzero.core.shares import shares
from dayzero.core.spec import EndpointConfig, EndpointSpec, EngineConfig
from dayzero.engine.machine import Machine
from dayzero.engine.resolve import KV_SHARE, Memory, free_beside, memory
from dayzero.errors import ConfigError
from dayzero.kv.groups import CacheGroup


@dataclass(frozen=True, slots=True)
class Division:
    """How a server is divided into endpoints.

    names       "" if nobody asked for endpoints
    memories    of each; `memory` is of all of them together
    """

    names: tuple[str, ...]
    max_requests: tuple[int, ...]
    max_step_tokens: tuple[int, ...]
    memories: tuple[Memory, ...]
    memory: Memory

    @property
    def firsts(self) -> list[tuple[int, ...]]:
        """The first KV block of each endpoint, in each cache group."""
        found, at = [], tuple(1 for _ in self.memory.num_blocks)
        for part in self.memories:
            found.append(at)
            at = tuple(first + count - 1 for first, count in zip(at, part.num_blocks, strict=True))
        return found

    @property
    def specs(self) -> tuple[EndpointSpec, ...]:
        """None if nobody asked for endpoints."""
        if self.names == ("",):
            return ()
        return tuple(
            EndpointSpec(
                name=name,
                max_context=part.max_context,
                max_requests=requests,
                max_step_tokens=step_tokens,
                kv_blocks=part.kv_blocks,
                kv_bytes=part.kv_bytes,
            )
            for name, requests, step_tokens, part in zip(
                self.names, self.max_requests, self.max_step_tokens, self.memories, strict=True
            )
        )


def divide(
    config: EngineConfig, groups: Sequence[CacheGroup], *, model_context: int, weight_bytes: int, machine: Machine
) -> Division:
    """Divide what `config` has among its endpoints; without any, one has it all.

    KV memory that no endpoint asks for goes to the others in proportion to what their requests could fill. Tokens of a
    step go the other way: most to those of short contexts, so that long prompts leave the others' steps short.
    """
    free_bytes = free_beside(weight_bytes, machine)
    if not config.endpoints:
        whole = memory(config, groups, model_context=model_context, weight_bytes=weight_bytes, machine=machine)
        return Division(("",), (config.max_requests,), (config.max_step_tokens,), (whole,), whole)
    context = min(config.max_context or model_context, model_context)
    asked = config.endpoints
    for one in asked:
        _check_context(one, context)
    contexts = [one.max_context or context for one in asked]
    requests = shares(
        [one.max_requests for one in asked],
        config.max_requests,
        what="requests at once",
        hint="lower max_requests, or raise --max-requests",
    )
    step_tokens = shares(
        [one.max_step_tokens for one in asked],
        config.max_step_tokens,
        what="tokens of a step",
        hint="lower max_step_tokens, or raise --max-step-tokens",
        least=requests if groups else contexts,  # an encoder's text is a part of one step
        weights=[math.lcm(*contexts) // served for served in contexts],
    )
    for one, count, tokens, served in zip(asked, requests, step_tokens, contexts, strict=True):
        _check_step(one, count, tokens)
        if not groups:
            _check_span(one, served, tokens)
    kv_bytes = shares(
        [one.kv_memory_bytes for one in asked],
        _kv_bytes(config, free_bytes),
        what="bytes of KV memory",
        hint="lower kv_memory, or raise --kv-memory",
        weights=[count * served for count, served in zip(requests, contexts, strict=True)],
    )
    memories = tuple(
        memory(
            msgspec.structs.replace(
                config, max_context=one.max_context, max_requests=count, kv_memory_bytes=of_kv, endpoints=(one,)
            ),
            groups,
            model_context=context,
            weight_bytes=weight_bytes,
            machine=machine,
        )
        for one, count, of_kv in zip(asked, requests, kv_bytes, strict=True)
    )
    names = tuple(one.names[0] for one in asked)
    return Division(names, tuple(requests), tuple(step_tokens), memories, _together(memories))


def _kv_bytes(config: EngineConfig, free_bytes: int) -> int:
    """What there is to divide: as for a server without endpoints, or all that is free if each of them says."""
    if config.kv_memory_bytes is not None:
        return config.kv_memory_bytes
    says_all = all(one.kv_memory_bytes is not None for one in config.endpoints)
    return free_bytes if says_all else int(free_bytes * KV_SHARE)


def _together(memories: Sequence[Memory]) -> Memory:
    """The null block is everybody's."""
    return Memory(
        max(part.max_context for part in memories),
        tuple(1 + sum(count - 1 for count in counts) for counts in zip(*(m.num_blocks for m in memories), strict=True)),
        sum(part.kv_bytes for part in memories),
    )


def _check_context(endpoint: EndpointConfig, context: int) -> None:
    if endpoint.max_context is not None and endpoint.max_context > context:
        raise ConfigError(
            f"endpoint {endpoint.names[0]}: max_context too large: {endpoint.max_context} (the server's: {context})",
            hint="lower it",
        )


def _check_step(endpoint: EndpointConfig, max_requests: int, max_step_tokens: int) -> None:
    if max_step_tokens < max_requests:
        raise ConfigError(
            f"endpoint {endpoint.names[0]}: {max_step_tokens} tokens of a step for {max_requests} requests at once",
            hint="give it max_step_tokens of at least its max_requests: each takes one",
        )


def _check_span(endpoint: EndpointConfig, max_context: int, max_step_tokens: int) -> None:
    if max_step_tokens < max_context:
        raise ConfigError(
            f"endpoint {endpoint.names[0]}: {max_step_tokens} tokens of a step for texts of {max_context}",
            hint="raise --max-step-tokens or lower its max_context: an encoder computes a text in one step",
        )
