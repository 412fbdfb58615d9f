"""The load: which session is sent when, and the drive of one target.

Closed loop: `concurrency` workers, each sends its next session when its last one ended. Open loop: sessions start at
seeded random times, whatever the server does; `concurrency` then caps how many run at once, and what waits for the cap
shows as send lag. The turns of a session follow each other in both.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import aiohttp

from dayzero.clock import Clock
from dayzero.errors import ConfigError
from dayzero.workshop.bench.arrivals import arrival_times_s
from dayzero.workshop.bench.client import Client, Place, Record, Sampling
from dayzero.workshop.bench.target import Target
from dayzero.workshop.bench.timeline import Status, Timeline
from dayzero.workshop.bench.workloads.registry import WorkloadOptions, find
from dayzero.workshop.bench.workloads.session import AsChat, Chat, Message, Session, Workload
from dayzero.workshop.bench.workloads.vary import Varied
from dayzero.workshop.bench.workloads.writer import PromptWriter

PAUSE_AFTER_FAILURE_S = 0.1  # a closed loop would otherwise spin on a server that refuses everything
MAX_PAUSE_S = 10.0

Numbered = tuple[int, Session]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much, and how it comes. `rate_per_s` counts sessions; `requests` counts requests, each turn one."""

    concurrency: int | None = None
    rate_per_s: float | None = None
    burstiness: float = 1.0
    requests: int | None = None
    duration_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "rate_per_s", "burstiness", "requests", "duration_s"):
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise ConfigError(f"{name}: {value} is not a positive number")
        if self.concurrency is None and self.rate_per_s is None:
            raise ConfigError("no load given", hint="set a concurrency (closed loop) or a rate (open loop)")
        if self.requests is None and self.duration_s is None:
            raise ConfigError("the load has no end", hint="set a number of requests or a duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides what is sent, apart from the server: printed with the result. Holds no key.

    `repeat_prompts`: prompts are sent as they are, so that a repeat can hit the server's prefix cache.
    """

    workload: str
    options: WorkloadOptions
    load: Load
    seed: int
    max_tokens: int = 128
    temperature: float = 0.0
    ignore_eos: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    as_chat: bool = False
    repeat_prompts: bool = False
    warmup: int = 0
    timeout_s: float = 600.0


class Driver:
    """Runs a plan against one target. `writer` is needed by workloads that make their prompts up (see `find`)."""

    def __init__(
        self, http: aiohttp.ClientSession, target: Target, plan: Plan, writer: PromptWriter | None, clock: Clock
    ) -> None:
        sampling = Sampling(
            model=target.model,
            max_tokens=plan.max_tokens,
            temperature=plan.temperature,
            ignore_eos=plan.ignore_eos,
            guard_off=target.is_dayzero,
            extra=plan.extra,
        )
        self._client = Client(http, target.base_url, sampling, clock, timeout_s=plan.timeout_s)
        self._plan = plan
        self._writer = writer
        self._clock = clock

    async def warm_up(self, label: str) -> None:
        """Send the plan's warm-up requests, which are not measured. If all of them fail, nothing else would work."""
        if not self._plan.warmup:
            return
        load = Load(concurrency=self._plan.load.concurrency or self._plan.warmup, requests=self._plan.warmup)
        seen: list[Timeline] = []
        await run_load(self._client, self._workload(f"warmup {label}", 0), load, self._clock, seen.append)
        if all(timeline.status is Status.FAILED for timeline in seen):
            failure = seen[0].failure
            assert failure is not None
            raise ConfigError(f"every warm-up request failed: {failure.kind}: {failure.message or 'no message'}")

    async def measure(self, label: str, record: Record, *, round_number: int = 0) -> None:
        """Send the load and record each request. `label` goes into the salt, `round_number` into the seed."""
        workload = self._workload(f"{label} {round_number}", round_number)
        seed = self._plan.seed + round_number
        await run_load(self._client, workload, self._plan.load, self._clock, record, seed=seed)

    def _workload(self, label: str, round_number: int) -> Workload:
        plan = self._plan
        seed = plan.seed + round_number
        workload = find(plan.workload).build(plan.options, self._writer, seed)
        if plan.as_chat:
            workload = AsChat(workload)
        return workload if plan.repeat_prompts else Varied(workload, seed=plan.seed, label=label)


async def run_load(
    client: Client, workload: Workload, load: Load, clock: Clock, record: Record, *, seed: int = 0
) -> None:
    """Send until the requests are done or the time is up; what is then in flight is cut and recorded as incomplete."""
    try:
        async with asyncio.timeout(load.duration_s):
            if load.rate_per_s is None:
                await _closed_loop(client, workload, load, record)
            else:
                await _open_loop(client, workload, load, clock, record, seed)
    except TimeoutError:
        return


def numbered_sessions(workload: Workload, requests: int | None) -> Iterator[Numbered]:
    """Sessions with their index until they hold `requests` turns; the last one is cut to fit. None: without end."""
    left = math.inf if requests is None else requests
    for index in count():
        if left <= 0:
            return
        session = workload.session(index)
        if len(session.turns) > left:
            session = replace(session, turns=session.turns[: int(left)])
        left -= len(session.turns)
        yield index, session


async def _closed_loop(client: Client, workload: Workload, load: Load, record: Record) -> None:
    sessions = numbered_sessions(workload, load.requests)

    async def worker() -> None:
        for index, session in sessions:
            last = await _play(client, index, session, None, record)
            if last.status is Status.FAILED:
                wanted_s = PAUSE_AFTER_FAILURE_S if last.retry_after_s is None else last.retry_after_s
                await asyncio.sleep(min(wanted_s, MAX_PAUSE_S))

    assert load.concurrency is not None
    async with asyncio.TaskGroup() as group:
        for _ in range(min(load.concurrency, load.requests or load.concurrency)):
            group.create_task(worker())


def schedule(workload: Workload, load: Load, seed: int) -> list[tuple[float, Numbered]]:
    """What an open loop sends and when, in seconds from its start; a duration takes as many as the rate gives in it."""
    assert load.rate_per_s is not None
    most = None if load.duration_s is None else math.ceil(load.rate_per_s * load.duration_s)
    sessions = list(islice(numbered_sessions(workload, load.requests), most))
    times = arrival_times_s(len(sessions), rate_per_s=load.rate_per_s, burstiness=load.burstiness, seed=seed)
    return list(zip(times, sessions, strict=True))


async def _open_loop(client: Client, workload: Workload, load: Load, clock: Clock, record: Record, seed: int) -> None:
    cap: AbstractAsyncContextManager[object] = (
        nullcontext() if load.concurrency is None else asyncio.Semaphore(load.concurrency)
    )

    async def play(index: int, session: Session, due_s: float) -> None:
        async with cap:
            await _play(client, index, session, due_s, record)

    due = schedule(workload, load, seed)
    start_s = clock.now_s()
    async with asyncio.TaskGroup() as group:
        for offset_s, (index, session) in due:
            await asyncio.sleep(start_s + offset_s - clock.now_s())
            group.create_task(play(index, session, start_s + offset_s))


async def _play(client: Client, index: int, session: Session, due_s: float | None, record: Record) -> Timeline:
    """Send the turns of a session one after the other, up to the first that does not succeed; return the last."""
    history: list[Message] = []
    for number, turn in enumerate(session.turns):
        timeline, text = await client.send(turn, history, Place(index, number, due_s if number == 0 else None), record)
        if timeline.status is not Status.SUCCESSFUL:
            break
        if isinstance(turn, Chat):
            history.extend(turn.messages)
            history.append({"role": "assistant", "content": text if turn.reply is None else turn.reply})
    return timeline
