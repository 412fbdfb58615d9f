"""A replica without an engine, for tests and for measuring the gateway alone."""

import asyncio
import math
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

from dayzero.core.events import FinishReason, Logprob, RequestId, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.errors import ReplicaLost
from dayzero.wire.messages import Load, Submit

Script = Callable[[Submit], Sequence[TokenEvent]]


class FakeReplica:
    """Answers from a script, one event a turn of the loop. The default script hashes prompt and position.

    A script that ends without a terminal event leaves its request running until it is aborted.

    submits   what was asked, in order
    aborted   requests that ended early: their reader left, or `abort` was called
    running   requests in flight
    kept      how much of an output each call of `abort` wanted to keep
    """

    def __init__(self, spec: EngineSpec, script: Script | None = None) -> None:
        self.spec = spec
        self.is_alive = True
        self.load = Load(kv_blocks_total=spec.kv_blocks)
        self.submits: list[Submit] = []
        self.aborted: list[RequestId] = []
        self.running: dict[RequestId, asyncio.Event] = {}
        self.kept: dict[RequestId, int | None] = {}
        self._script = script or (lambda submit: hashed_tokens(submit, spec))

    async def generate(self, submit: Submit) -> AsyncIterator[TokenEvent]:
        if not self.is_alive:
            raise ReplicaLost("the fake is dead")
        assert submit.request_id not in self.running
        self.submits.append(submit)
        interrupted = self.running[submit.request_id] = asyncio.Event()
        is_finished = False
        try:
            for event in self._script(submit):
                await asyncio.sleep(0)
                if interrupted.is_set():
                    break
                is_finished = event.finish is not None
                yield event
                if is_finished:
                    return
            await interrupted.wait()
            if not self.is_alive:
                raise ReplicaLost("the fake died")
            yield TokenEvent(submit.request_id, finish=FinishReason.ABORT)
        finally:
            del self.running[submit.request_id]
            if not is_finished:
                self.aborted.append(submit.request_id)

    async def abort(self, request_id: RequestId, num_kept: int | None = None) -> None:
        if request_id in self.running:
            self.kept[request_id] = num_kept
            self.running[request_id].set()

    def die(self) -> None:
        """Lose every request in flight, and each later one."""
        self.is_alive = False
        for interrupted in self.running.values():
            interrupted.set()


def hashed_tokens(submit: Submit, spec: EngineSpec) -> list[TokenEvent]:
    """Events of a generation that depends on prompt, seed, choice and position only, and ends at max_tokens."""
    params = submit.params
    if submit.pooling is not None:
        return [hashed_embedding(submit, spec)]
    key = repr((submit.prompt, params.seed, submit.choice)).encode()
    tokens = [zlib.crc32(b"%d" % i, zlib.crc32(key)) % spec.vocab_size for i in range(params.max_tokens)]
    events = []
    for i, token in enumerate(tokens):
        logprobs = None if params.logprobs is None else [hashed_logprob(token, params.logprobs, spec.vocab_size)]
        events.append(TokenEvent(submit.request_id, [token], logprobs=logprobs, cached_tokens=0 if i == 0 else None))
    if not events:
        events.append(TokenEvent(submit.request_id, cached_tokens=0))
    prompt_logprobs: list[Logprob | None] | None = None
    if params.prompt_logprobs is not None:
        width = params.prompt_logprobs
        prompt_logprobs = [None, *(hashed_logprob(token, width, spec.vocab_size) for token in submit.prompt[1:])]
    first, last = events[0], events[-1]
    events[0] = TokenEvent(
        first.request_id,
        first.tokens,
        logprobs=first.logprobs,
        prompt_logprobs=prompt_logprobs,
        cached_tokens=first.cached_tokens,
        finish=FinishReason.LENGTH if first is last else None,
    )
    if first is not last:
        events[-1] = TokenEvent(last.request_id, last.tokens, logprobs=last.logprobs, finish=FinishReason.LENGTH)
    return events


def hashed_embedding(submit: Submit, spec: EngineSpec) -> TokenEvent:
    """The one event of an embedding that depends on prompt and pooling only."""
    key = zlib.crc32(repr((submit.prompt, submit.pooling)).encode())
    numbers = [zlib.crc32(b"%d" % i, key) / 2**32 - 0.5 for i in range(spec.embedding_size)]
    length = math.hypot(*numbers)
    packed = struct.pack(f"<{len(numbers)}f", *(number / length for number in numbers))
    return TokenEvent(submit.request_id, finish=FinishReason.STOP, cached_tokens=0, embedding=packed)


def hashed_logprob(token: int, count: int, vocab_size: int) -> Logprob:
    """The token comes first with probability 1/2, then its successors, each half as likely."""
    top = tuple(((token + i) % vocab_size, -math.log(2.0) * (i + 1)) for i in range(count))
    return Logprob(token, -math.log(2.0), 1, top)
