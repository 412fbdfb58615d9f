"""Runs the inputs of one embeddings request at an engine, and sees to it that all of them end.

Knows no HTTP. An embedding is little-endian float32 from the engine to the client.
"""

import asyncio
import contextlib
import math
import secrets
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dayzero.core.pooling import Pooling
from dayzero.core.sampling import check_prompt
from dayzero.core.spec import EngineSpec
from dayzero.errors import ContextTooLong, InternalError, RequestError
from dayzero.gateway.generate import until_deadline
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.stream import FAILURES, failure_of
from dayzero.router.replica import Replica
from dayzero.wire.messages import EMBEDS, Submit


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingWork:
    """One request, ready to run.

    inputs      token ids of each
    at_once     how many of them the engine has at a time
    endpoint    what the engine calls it
    """

    inputs: Sequence[list[int]]
    at_once: int
    pooling: Pooling
    endpoint: str
    salt: str
    tenant: str
    priority: int
    deadline_s: float

    @property
    def prompt_tokens(self) -> int:
        return sum(map(len, self.inputs))


class Embedder:
    """Turns work into embeddings."""

    def __init__(self, replica: Replica, metrics: Metrics) -> None:
        self._replica = replica
        self._metrics = metrics

    async def run(self, work: EmbeddingWork) -> list[bytes]:
        """In the order of the inputs. However it is left, no input goes on at the engine.

        Raises DeadlinePassed, ReplicaLost or InternalError; the other inputs are aborted then.
        """
        self._metrics.prompt_tokens.inc(work.prompt_tokens)
        found: dict[int, bytes] = {}
        waiting = iter(range(len(work.inputs)))
        try:
            async with until_deadline(work.deadline_s), asyncio.TaskGroup() as group:
                for _ in range(min(work.at_once, len(work.inputs))):
                    group.create_task(self._take(work, waiting, found))
        finally:
            self._metrics.embeddings.inc(len(found))
        return [found[number] for number in range(len(work.inputs))]

    async def _take(self, work: EmbeddingWork, waiting: Iterator[int], found: dict[int, bytes]) -> None:
        """One input after the other, until none waits."""
        for number in waiting:
            found[number] = await self._embed(work, work.inputs[number])

    async def _embed(self, work: EmbeddingWork, tokens: list[int]) -> bytes:
        submit = Submit(
            request_id=secrets.randbits(63),
            prompt=tokens,
            params=EMBEDS,
            salt=work.salt,
            policy_version=self._replica.spec.policy_version,
            tenant=work.tenant,
            priority=work.priority,
            deadline_s=work.deadline_s,
            pooling=work.pooling,
            endpoint=work.endpoint,
        )
        async with contextlib.aclosing(self._replica.generate(submit)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.finish in FAILURES:
                    raise failure_of(event)
                if event.embedding is not None:
                    embedding: bytes = event.embedding
                    return embedding
        raise InternalError("the engine's events ended without an embedding")


def check_dimensions(asked: int | None, own: int) -> int:
    """How many numbers an embedding gets. Raises RequestError; `own`: the model's."""
    dimensions = own if asked is None else asked
    if type(dimensions) is not int or not 1 <= dimensions <= own:
        raise RequestError(
            f"dimensions out of range: {dimensions} (allowed: 1 to {own}, the model's own)", param="dimensions"
        )
    return dimensions


def check_input(tokens: list[int], spec: EngineSpec, context: int) -> None:
    """Raises RequestError for what is no text, or too long."""
    check_prompt(tokens, spec.vocab_size, param="input")
    if len(tokens) > context:
        raise ContextTooLong(prompt_tokens=len(tokens), max_tokens=0, limit=context, param="input")


def numbers(embedding: bytes) -> tuple[float, ...]:
    """Of little-endian float32."""
    return struct.unpack(f"<{len(embedding) // 4}f", embedding)


def shortened(embedding: bytes, dimensions: int) -> bytes:
    """Its first so many numbers, of unit length again; all zero where they are. The same bits for all of them."""
    if 4 * dimensions == len(embedding):
        return embedding
    kept = numbers(embedding[: 4 * dimensions])
    length = math.sqrt(math.fsum(number * number for number in kept))
    return struct.pack(f"<{dimensions}f", *(number / length if length else 0.0 for number in kept))
