"""The endpoints of one engine, and who gets how much of a step.

An endpoint has a scheduler of its own: its queue, its limits, its KV blocks. So no request takes a place or a block
from another endpoint's, and none is preempted for another's sake. What they have in common is the step:

    one endpoint has requests    it may have the whole step
    several have                 each may have its own `max_step_tokens` of it

In the second case no endpoint gets what the others leave: a smaller step is over sooner, and that is what those gain
that decode beside a long prompt.

Knows no tensors and no text; of time, how long a step takes.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Self

from dayzero.clock import Clock
from dayzero.core.events import RequestId, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.divide import Division
from dayzero.engine.scheduler import Scheduler, SchedulerLimits
from dayzero.errors import ConfigError
from dayzero.kv.cache import KVCache
from dayzero.kv.groups import CacheGroup
from dayzero.wire.messages import EndpointLoad, Load


class Endpoints:
    """All requests of one engine."""

    def __init__(self, schedulers: Mapping[str, Scheduler], *, max_step_tokens: int, clock: Clock) -> None:
        """max_step_tokens: of a whole step"""
        self._by_name = dict(schedulers)
        self._schedulers = tuple(schedulers.values())
        self._caps = [scheduler.limits.max_step_tokens for scheduler in self._schedulers]
        self._max_step_tokens = max_step_tokens
        self._clock = clock
        self._parts: list[list[Span]] = [[] for _ in self._schedulers]  # of the last step
        self._step_started_s = 0.0
        self._step_s = 0.0
        self._steps = 0
        if sum(self._caps) > max_step_tokens:
            raise ConfigError(f"the endpoints' steps have {sum(self._caps)} tokens together (limit: {max_step_tokens})")

    @classmethod
    def of(cls, spec: EngineSpec, groups: Sequence[CacheGroup], division: Division, clock: Clock) -> Self:
        """Each with its part of the KV blocks."""
        schedulers = {
            endpoint.name: Scheduler(
                SchedulerLimits.of(endpoint, spec),
                KVCache(
                    groups, part.num_blocks, block_size=spec.block_size, prefix_cache=spec.prefix_cache, firsts=firsts
                ),
            )
            for endpoint, part, firsts in zip(spec.all_endpoints, division.memories, division.firsts, strict=True)
        }
        return cls(schedulers, max_step_tokens=spec.max_step_tokens, clock=clock)

    def __contains__(self, request_id: RequestId) -> bool:
        return any(request_id in scheduler for scheduler in self._schedulers)

    @property
    def has_work(self) -> bool:
        return any(scheduler.has_work for scheduler in self._schedulers)

    def find(self, name: str) -> Scheduler | None:
        """None: there is no such endpoint."""
        return self._by_name.get(name)

    def abort(self, request_id: RequestId, num_kept: int | None = None) -> TokenEvent | None:
        """See `Scheduler.abort`."""
        for scheduler in self._schedulers:
            if request_id in scheduler:
                return scheduler.abort(request_id, num_kept)
        return None

    def wait_for_masks(self, held_s: float, mask_s: float) -> None:
        """Give masks some time, `held_s` and `mask_s` for each; who waits for one longer sits out the next step.

        Nobody who runs waits for one that does not: its grammar may take long to build.
        """
        is_running = any(scheduler.is_running for scheduler in self._schedulers)
        bindings = [binding for scheduler in self._schedulers for binding in scheduler.bindings(of_running=is_running)]
        deadline_s = time.perf_counter() + held_s + mask_s * len(bindings)
        for binding in reversed(bindings):  # the last is followed last, and wakes this thread once for all
            if not binding.wait(max(0.0, deadline_s - time.perf_counter())):
                return

    def schedule(self) -> Batch:
        """The next step; may be empty."""
        self._step_started_s = self._clock.now_s()
        budgets = step_budgets(self._caps, [s.has_work for s in self._schedulers], self._max_step_tokens)
        self._parts = [
            scheduler.schedule(budget, self._step_started_s) if budget else []
            for scheduler, budget in zip(self._schedulers, budgets, strict=True)
        ]
        self._steps += 1
        return Batch(self._steps, tuple(span for part in self._parts for span in part))

    def commit(self, outcomes: Sequence[Outcome]) -> list[TokenEvent]:
        """What came of the last step's spans, and what else its requests are to be told."""
        events: list[TokenEvent] = []
        start = 0
        for scheduler, part in zip(self._schedulers, self._parts, strict=True):
            events += scheduler.commit(part, outcomes[start : start + len(part)])
            start += len(part)
        assert start == len(outcomes), (start, len(outcomes))
        self._step_s = self._clock.now_s() - self._step_started_s
        return events

    def load(self) -> Load:
        parts = [scheduler.load() for scheduler in self._schedulers]
        return Load(
            running=sum(part.running for part in parts),
            waiting=sum(part.waiting for part in parts),
            kv_blocks_used=sum(part.kv_blocks_used for part in parts),
            kv_blocks_total=sum(part.kv_blocks_total for part in parts),
            steps=self._steps,
            computed_tokens=sum(part.computed_tokens for part in parts),
            prefix_hit_tokens=sum(part.prefix_hit_tokens for part in parts),
            preemptions=sum(part.preemptions for part in parts),
            step_s=self._step_s,
            endpoints=tuple(
                EndpointLoad(p.running, p.waiting, p.kv_blocks_used, p.kv_blocks_total, p.preemptions) for p in parts
            ),
        )

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for scheduler in self._schedulers:
            scheduler.check()


def step_budgets(caps: Sequence[int], busy: Sequence[bool], whole: int) -> list[int]:
    """Tokens of a step for each endpoint: the whole one for the only one that is busy, else its cap; 0 for the idle."""
    is_alone = sum(busy) == 1
    return [(whole if is_alone else cap) if works else 0 for cap, works in zip(caps, busy, strict=True)]
