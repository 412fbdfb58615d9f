"""A runner without weights, and a KV memory that holds fingerprints.

They let scheduler, KV cache, wire and gateway run a million steps on a laptop: tokens are a hash of what law 1 allows
them to depend on, and `FingerprintMemory` fails at the step in which a block table would have read anything wrong.
"""

import struct
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec
import numpy as np

from dayzero.clock import Clock
from dayzero.core.events import Logprob
from dayzero.core.pooling import Pooling
from dayzero.core.spec import EngineConfig, EngineSpec, FakeModel
from dayzero.engine import pooling
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.divide import divide
from dayzero.engine.endpoints import Endpoints
from dayzero.engine.engine import Engine
from dayzero.engine.machine import Machine
from dayzero.engine.request import Request
from dayzero.kv.blocks import NULL_BLOCK, BlockId
from dayzero.kv.groups import CacheGroup, CacheKind

_NOTHING = Outcome()
_COUNTER = struct.Struct("<QIIIII")  # seed, choice, attempt, lengths of prompt and output, last token


class FingerprintMemory:
    """For each (group, block, slot), a fingerprint of the prefix that ends there: salt, version and all tokens.

    `run` writes what a step would write, then asserts that every position that a span reads, its group's window
    considered, holds that span's own prefix. So a wrong table entry, a hit on foreign KV, a block that was freed too
    early or written by two requests, and KV that was never computed all fail at once.
    """

    def __init__(self, groups: Sequence[CacheGroup], block_size: int) -> None:
        self._groups = groups
        self._block_size = block_size
        self._blocks: list[dict[BlockId, list[int]]] = [{} for _ in groups]
        self._prefixes: dict[Request, list[int]] = {}  # of the requests of the last step

    def run(self, batch: Batch) -> None:
        self._prefixes = {span.request: self._prefix(span) for span in batch.spans}
        for number in range(len(self._groups)):
            written: set[tuple[BlockId, int]] = set()
            for span in batch.spans:
                self._write(span, number, written)
            for span in batch.spans:
                self._read(span, number)

    def _prefix(self, span: Span) -> list[int]:
        prints = self._prefixes.get(span.request, [])
        previous = prints[-1] if prints else hash((span.request.salt, span.request.policy_version))
        for token in span.request.tokens(len(prints), span.stop):
            previous = hash((previous, token))
            prints.append(previous)
        return prints

    def _write(self, span: Span, number: int, written: set[tuple[BlockId, int]]) -> None:
        prints = self._prefixes[span.request]
        table = span.request.block_tables[number]
        for position in range(span.start, span.stop):
            index, slot = divmod(position, self._block_size)
            block = table[index]
            assert block != NULL_BLOCK, ("write to the null block", span.request.id, position)
            assert (block, slot) not in written, ("two writes to one slot", span.request.id, block, slot)
            written.add((block, slot))
            self._blocks[number].setdefault(block, [0] * self._block_size)[slot] = prints[position]

    def _read(self, span: Span, number: int) -> None:
        prints = self._prefixes[span.request]
        table = span.request.block_tables[number]
        first = self._groups[number].first_needed(span.start)
        for index in range(first // self._block_size, (span.stop - 1) // self._block_size + 1):
            origin = index * self._block_size
            low, high = max(first, origin), min(span.stop, origin + self._block_size)
            assert table[index] != NULL_BLOCK, ("read of the null block", span.request.id, index)
            held = self._blocks[number][table[index]][low - origin : high - origin]
            assert held == prints[low:high], ("read of foreign KV", span.request.id, number, index)


class FakeRunner:
    """A Runner whose tokens are a hash of seed, choice, attempt, position and the token before."""

    def __init__(
        self,
        model: FakeModel,
        *,
        memory: FingerprintMemory | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model = model
        self._stop_ids = frozenset(model.eos_token_ids)
        self._memory = memory
        self._sleep = sleep

    def launch(self, batch: Batch) -> "FakeStep":
        if self._memory is not None:
            self._memory.run(batch)
        return FakeStep([self._outcome(span) for span in batch.spans], self._model.step_s, self._sleep)

    def _outcome(self, span: Span) -> Outcome:
        request = span.request
        params = request.params
        if request.pooling is not None:
            return self._pool(span, request.pooling)
        prompt_logprobs = None
        if params.prompt_logprobs is not None:
            known = request.prompt[span.start + 1 : span.stop + 1]
            prompt_logprobs = tuple(self._logprob(token, params.prompt_logprobs) for token in known)
        if not span.samples:
            return _NOTHING if prompt_logprobs is None else Outcome(prompt_logprobs=prompt_logprobs)
        token = self._token(request)
        logprobs = None if params.logprobs is None else (self._logprob(token, params.logprobs),)
        return Outcome((token,), logprobs, prompt_logprobs)

    def _pool(self, span: Span, wanted: Pooling) -> Outcome:
        """Pooled as a model's, of hidden states that are a hash of their token."""
        tokens = span.request.tokens(span.start, span.stop)
        rows = pooling.wanted(wanted, span.start, span.length, is_last=span.samples)
        total = pooling.add(span.request.pooled, (self._hidden(tokens[row]) for row in rows))
        return Outcome(pooled=total, embedding=pooling.embedding(total) if span.samples else None)

    def _hidden(self, token: int) -> pooling.Row:
        bits = blake2b(token.to_bytes(4, "little"), digest_size=2 * self._model.embedding_size).digest()
        return np.frombuffer(bits, dtype="<i2").astype(np.float32)

    def _token(self, request: Request) -> int:
        params, prompt, output = request.params, request.prompt, request.output
        last = output[-1] if output else prompt[-1]
        counter = _COUNTER.pack(params.seed, request.choice, request.attempt, len(prompt), len(output), last)
        vocab_size = self._model.vocab_size
        token = int.from_bytes(blake2b(counter, digest_size=8).digest(), "little") % vocab_size
        banned = frozenset(params.banned_tokens if len(output) < params.banned_until else ())
        if len(output) < params.min_tokens:
            banned = banned.union(self._stop_ids, params.stop_token_ids)
        allowed = request.allowed
        if allowed is not None:
            ids = np.flatnonzero(np.unpackbits(allowed.view(np.uint8), bitorder="little", count=vocab_size))
            others = ids[~np.isin(ids, list(banned))]
            ids = others if len(others) else ids
            return int(ids[token % len(ids)]) if len(ids) else token
        return next((t % vocab_size for t in range(token, token + vocab_size) if t % vocab_size not in banned), token)

    def _logprob(self, token: int, num_top: int) -> Logprob:
        """The token as the likeliest of a fixed distribution."""
        vocab_size = self._model.vocab_size
        top = tuple(((token + i) % vocab_size, -0.5 - i) for i in range(min(num_top, vocab_size)))
        return Logprob(token, -0.5, 1, top)


class FakeStep:
    """A Pending that takes as long as it was told to."""

    def __init__(self, outcomes: list[Outcome], step_s: float, sleep: Callable[[float], None]) -> None:
        self._outcomes = outcomes
        self._step_s = step_s
        self._sleep = sleep

    def collect(self) -> list[Outcome]:
        if self._step_s > 0:
            self._sleep(self._step_s)
        return self._outcomes


def build_fake_engine(config: EngineConfig, clock: Clock) -> tuple[Engine, EngineSpec]:
    """An engine around `config.fake`, whose KV takes a byte for each token. By default all requests have room."""
    model = config.fake
    assert model is not None, "a configuration without a fake model"
    max_context = config.max_context or model.max_context
    num_tokens = config.kv_memory_bytes or config.max_requests * (max_context + 2 * config.block_size)
    groups = (CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1),)
    division = divide(
        msgspec.structs.replace(config, kv_memory_bytes=num_tokens),
        groups,
        model_context=max_context,
        weight_bytes=0,
        machine=Machine(cores=1, free_bytes=num_tokens),
    )
    spec = EngineSpec(
        model=config.model,
        family="fake",
        dtype=config.dtype,
        precision="none",
        vocab_size=model.vocab_size,
        embedding_size=model.embedding_size,
        max_context=division.memory.max_context,
        eos_token_ids=model.eos_token_ids,
        weight_bytes=0,
        block_size=config.block_size,
        kv_blocks=division.memory.kv_blocks,
        kv_bytes=division.memory.kv_bytes,
        kv_dtype="none",
        max_requests=config.max_requests,
        max_step_tokens=config.max_step_tokens,
        threads=1,
        prefix_cache=config.prefix_cache,
        numerics_id="fake",
        policy_version="fake",
        kernels=(),
        endpoints=division.specs,
    )
    return Engine(Endpoints.of(spec, groups, division, clock), FakeRunner(model), clock, spec), spec
