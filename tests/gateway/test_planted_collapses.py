"""A model that falls into loops, drawn from by the real sampler in the real engine: the guard leads it out again."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from dayzero.clock import FakeClock
from dayzero.core.events import RequestId, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineSpec
from dayzero.engine.batch import Batch, Outcome
from dayzero.engine.endpoints import Endpoints
from dayzero.engine.engine import Engine
from dayzero.engine.fake import FakeStep, FingerprintMemory
from dayzero.engine.request import Request
from dayzero.engine.scheduler import Scheduler, SchedulerLimits
from dayzero.gateway.admission import Admission
from dayzero.gateway.generate import Generator, Prompt, Usage, Work
from dayzero.gateway.guard import GuardPolicy, Mode
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.stream import Delta, StreamRules
from dayzero.kv.cache import KVCache
from dayzero.kv.groups import CacheGroup, CacheKind
from dayzero.sampling.sampler import Row, sample
from dayzero.wire.messages import Load, Submit
from tests.gateway.stand import EOS, SPEC, byte_tokenizer

WORDS = ("ing", *(f" word{number}" for number in range(40)))
FIRST = 259  # the token of the first of them
PLANTED_AT = 12  # output tokens
HONEST_TOKENS = 60  # after which it would end
TEMPERATURES = [0.0, 0.3, 0.7, 1.0, 1.2]


class LoopingRunner:
    """Letters, until it falls into a loop of some words, in which the next one leads by 12 nats.

    stubborn   whatever it writes, it falls back into the loop
    """

    def __init__(self, memory: FingerprintMemory, period: int, *, stubborn: bool) -> None:
        self._memory = memory
        self._loop = [FIRST + number for number in range(period)]
        self._stubborn = stubborn

    def launch(self, batch: Batch) -> FakeStep:
        self._memory.run(batch)
        return FakeStep([Outcome((self._token(s.request),)) if s.samples else Outcome() for s in batch.spans], 0.0, _no)

    def _token(self, request: Request) -> int:
        row = Row(request.params, request.prompt, request.output, request.choice, request.attempt, (EOS,))
        (token,) = sample(torch.from_numpy(self._logits(request.output))[None], [row])
        return token

    def _logits(self, output: list[int]) -> np.ndarray:
        last = output[-1] if output else 0
        logits = np.full(300, -30.0, dtype=np.float32)
        logits[97:123] = np.random.default_rng(last).standard_normal(26)
        if last in self._loop:
            logits[self._loop[(last - FIRST + 1) % len(self._loop)]] = 12.0
        elif len(output) == PLANTED_AT or self._stubborn:
            logits[self._loop] = 12.0
        elif len(output) >= HONEST_TOKENS:
            logits[EOS] = 12.0
        return logits


def _no(_: float) -> None:
    raise AssertionError("a step that takes no time does not sleep")


class EngineReplica:
    """An engine in this process, stepped by whoever waits for an event."""

    def __init__(self, period: int, *, stubborn: bool = False) -> None:
        self.spec: EngineSpec = replace(SPEC, vocab_size=300, max_context=2048)
        self.load, self.is_alive = Load(), True
        group = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1)
        self.cache = KVCache((group,), [400], block_size=16, prefix_cache=True)
        self.scheduler = Scheduler(SchedulerLimits.of(self.spec.all_endpoints[0], self.spec), self.cache)
        endpoints = Endpoints({"": self.scheduler}, max_step_tokens=self.spec.max_step_tokens, clock=FakeClock())
        runner = LoopingRunner(FingerprintMemory((group,), 16), period, stubborn=stubborn)
        self._engine = Engine(endpoints, runner, FakeClock(), self.spec)
        self._events: dict[RequestId, deque[TokenEvent]] = {}

    async def generate(self, submit: Submit) -> AsyncIterator[TokenEvent]:
        events = self._events[submit.request_id] = deque()
        self._engine.submit(submit)
        event = None
        try:
            while event is None or event.finish is None:
                while not events:
                    await asyncio.sleep(0)
                    report = None if events else self._engine.step()
                    for each in () if report is None else report.events:
                        if each.request_id in self._events:
                            self._events[each.request_id].append(each)
                event = events.popleft()
                yield event
        finally:
            del self._events[submit.request_id]
            self._engine.abort(submit.request_id)

    async def abort(self, request_id: RequestId, num_kept: int | None = None) -> None:
        self._engine.abort(request_id, num_kept)


class Run:
    """The answer to one request; `texts` and `last`, the last delta, by choice."""

    def __init__(
        self, temperature: float, period: int, *, mode: Mode = "retry", num_choices: int = 1, stubborn: bool = False
    ) -> None:
        self.replica = EngineReplica(period, stubborn=stubborn)
        self.tokens: list[list[int]] = [[] for _ in range(num_choices)]
        self.texts = [""] * num_choices
        self.last: list[Delta | None] = [None] * num_choices
        self.usage = asyncio.run(self._run(temperature, mode, num_choices))
        self.replica.scheduler.check()
        assert self.replica.cache.usage.used_blocks == 0

    async def _run(self, temperature: float, mode: Mode, num_choices: int) -> Usage:
        metrics = Metrics(Load, Admission(9))
        generator = Generator(self.replica, byte_tokenizer(WORDS), metrics, FakeClock())
        work = Work(
            prompts=[
                Prompt(list(b"Tell me a story."), SamplingParams(max_tokens=900, seed=5, temperature=temperature))
            ],
            num_choices=num_choices,
            rules=StreamRules(),
            salt="",
            tenant="",
            priority=0,
            received_s=0.0,
            deadline_s=60.0,
            guard=GuardPolicy(mode=mode),
        )
        return await generator.run(work, generator.streams(work), self._take)

    async def _take(self, delta: Delta) -> None:
        self.texts[delta.index] += delta.text
        self.tokens[delta.index] += delta.token_ids
        self.last[delta.index] = delta


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("period", [1, 5, 24])
def test_one_retry_leads_out_of_a_planted_loop(temperature: float, period: int) -> None:
    run = Run(temperature, period)
    (last,), (text,), (tokens,) = run.last, run.texts, run.tokens
    assert last is not None
    assert last.collapse is not None
    assert (last.finish, last.collapse.attempts, last.collapse.is_end) == ("stop", 1, False)
    assert last.collapse.tier == (0 if period == 1 else 1)
    loop = "".join(WORDS[:period])
    assert text.count(loop) == 1 if period == 1 else 2 <= text.count(loop) <= 5 + 48 // period
    assert run.usage.output_tokens == len(tokens) >= HONEST_TOKENS
    assert text[-1].isalpha()


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_without_the_guard_the_loop_runs_on(temperature: float) -> None:
    run = Run(temperature, 1, mode="off")
    assert run.last[0] is not None
    assert run.last[0].collapse is None
    assert run.texts[0].count("ing") > 20


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_loop_that_cannot_be_left_ends_honestly(temperature: float) -> None:
    run = Run(temperature, 5, stubborn=True)
    assert run.last[0] is not None
    assert run.last[0].collapse is not None
    assert (run.last[0].finish, run.last[0].collapse.attempts, run.last[0].collapse.is_end) == ("length", 2, True)
    assert run.usage.output_tokens < 400


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_guarded_answer_does_not_depend_on_its_company(temperature: float) -> None:
    alone, among = Run(temperature, 5), Run(temperature, 5, num_choices=3)
    assert among.tokens[0] == alone.tokens[0]
    assert alone.tokens == Run(temperature, 5).tokens
