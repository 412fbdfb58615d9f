"""Which tokens of which requests of an endpoint are computed in the next step.

There are no prefill or decode steps: each request wants `num_computed` to reach `num_tokens`, and a step gives it a
span of that distance within a token budget.

    1. Running requests that lack one token get it first: a long prompt never holds up those that decode.
    2. The rest of the budget goes, in (priority, arrival) order, to running requests that lack more and to waiting ones
       that can be admitted. The first that cannot be admitted ends admission: small ones do not overtake a large one.
       An encoder's request is admitted only if the rest has room for all of it.
    3. Whoever lacks a block takes it from the worst running request, in the same order, which loses its blocks and
       waits again (preemption by recompute). The best one can take from all others, so it always gets on.
    4. A waiting request whose next block is being computed right now by another waits for it, and holds up nobody.

Knows no tensors, no text, no clock and no other endpoint. Spans are a view of vLLM's (v1/core/sched/scheduler.py).
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from dayzero.core.events import FinishReason, Logprob, RequestId, TokenEvent
from dayzero.core.prefix import BlockKey, block_keys
from dayzero.core.spec import EndpointSpec, EngineSpec
from dayzero.engine.batch import Outcome, Span
from dayzero.engine.binding import Binding
from dayzero.engine.request import Request, RequestState
from dayzero.errors import ConfigError
from dayzero.kv.cache import BlockTable, KVCache
from dayzero.wire.messages import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLimits:
    """Hard limits of one endpoint.

    max_step_tokens   in a step that other endpoints have a part of; lower: shorter gaps between tokens
    whole_spans       a request is computed in one span: the tokens of an encoder see those behind them
    """

    max_step_tokens: int
    max_requests: int
    max_context: int
    eos_token_ids: frozenset[int]
    max_waiting: int = 4096
    whole_spans: bool = False

    def __post_init__(self) -> None:
        if self.max_step_tokens < self.max_requests:
            raise ConfigError(
                f"max_step_tokens: {self.max_step_tokens} is below max_requests ({self.max_requests})",
                hint="a step must fit one token of every running request",
            )
        if min(self.max_requests, self.max_context, self.max_waiting) < 1:
            raise ConfigError("max_requests, max_context and max_waiting must be at least 1")
        if self.whole_spans and self.max_step_tokens < self.max_context:
            raise ConfigError(
                f"max_step_tokens: {self.max_step_tokens} is below max_context ({self.max_context})",
                hint="an encoder computes a text in one step",
            )

    @classmethod
    def of(cls, endpoint: EndpointSpec, spec: EngineSpec) -> Self:
        return cls(
            max_step_tokens=endpoint.max_step_tokens,
            max_requests=endpoint.max_requests,
            max_context=endpoint.max_context,
            eos_token_ids=frozenset(spec.eos_token_ids),
            whole_spans=spec.is_encoder,
        )


@dataclass(slots=True)
class _Plan:
    """A step in the making."""

    budget: int  # tokens left to give
    spans: dict[RequestId, Span] = field(default_factory=dict)
    next_waiting: int = 0  # those before were passed over: their prefix is being computed
    admits: bool = True

    def add(self, request: Request, length: int) -> None:
        assert request.id not in self.spans, request.id
        self.spans[request.id] = Span(request, request.num_computed, length)
        self.budget -= length

    def drop(self, request: Request) -> None:
        span = self.spans.pop(request.id, None)
        if span is not None:
            self.budget += span.length


@dataclass(frozen=True, slots=True)
class _Wait:
    """A waiting request's interest in a running one: until it has computed `num_tokens`, or no longer runs."""

    request: Request
    num_tokens: int

    @property
    def is_over(self) -> bool:
        return self.request.state is not RequestState.RUNNING or self.request.num_computed >= self.num_tokens


class Scheduler:
    """All requests of one endpoint.

    Invariants between calls: `_running` and `_waiting` are in (priority, arrival) order and hold together what
    `_requests` holds; only running requests hold blocks; every request added leaves with one terminal event.
    """

    def __init__(self, limits: SchedulerLimits, cache: KVCache) -> None:
        self.limits = limits
        self._cache = cache
        self._requests: dict[RequestId, Request] = {}
        self._bound: dict[RequestId, Request] = {}  # those with a constraint
        self._running: list[Request] = []
        self._waiting: list[Request] = []
        self._waits: dict[RequestId, _Wait] = {}
        self._next_deadline_s = math.inf  # no request's is earlier; its own request may have ended
        self._ended: list[TokenEvent] = []  # terminal events of `schedule`, delivered by the next `commit`
        self._arrivals = 0
        self._computed_tokens = 0
        self._prefix_hit_tokens = 0
        self._preemptions = 0

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._requests

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute or to say."""
        return bool(self._requests or self._ended)

    @property
    def is_running(self) -> bool:
        """Whether any request runs."""
        return bool(self._running)

    @property
    def is_full(self) -> bool:
        """As many requests wait as may wait."""
        return len(self._waiting) >= self.limits.max_waiting

    def add(self, request: Request) -> None:
        """Queue a request that can still gain a token (see `finish_reason`), or that wants its prompt's log-probs."""
        assert request.id not in self._requests, request.id
        request.arrival = self._arrivals
        self._arrivals += 1
        self._requests[request.id] = request
        if request.binding is not None:
            self._bound[request.id] = request
        insort(self._waiting, request, key=_order)
        if request.deadline_s is not None:
            self._next_deadline_s = min(self._next_deadline_s, request.deadline_s)

    def abort(self, request_id: RequestId, num_kept: int | None = None) -> TokenEvent | None:
        """End a request now, also between `schedule` and `commit`. None if it has ended or never was.

        num_kept   output tokens that are worth having in the prefix cache; None: all are
        """
        request = self._requests.get(request_id)
        if request is None:
            return None
        event = self._end(request, FinishReason.ABORT)
        if num_kept is not None:
            self._cache.forget(request.block_keys[(len(request.prompt) + num_kept) // self._cache.block_size :])
        return event

    def bindings(self, *, of_running: bool) -> list[Binding]:
        """Of the requests with a constraint; `of_running`: of those alone that run."""
        return [
            request.binding
            for request in self._bound.values()
            if request.binding is not None and not (of_running and request.state is not RequestState.RUNNING)
        ]

    def schedule(self, max_tokens: int, now_s: float) -> list[Span]:
        """The endpoint's part of the next step, at most `max_tokens`; may be empty. Side effects, in this order:

        end requests past their deadline -> reserve a block for each decode, preempting -> for each that catches up:
        admit those before it (match prefix, reserve blocks), then reserve its blocks, preempting.
        """
        assert max_tokens >= self.limits.max_requests, (max_tokens, self.limits.max_requests)
        self._end_late(now_s)
        self._end_broken()
        plan = _Plan(budget=max_tokens)
        for request in self._serve_decodes(plan):
            self._admit_before(request, plan)
            if not plan.budget:
                break
            is_new = request.id in plan.spans  # preempted and admitted again just now
            if request.state is RequestState.RUNNING and not is_new:
                self._catch_up(request, plan)
        self._admit_before(None, plan)
        return list(plan.spans.values())

    def commit(self, spans: Sequence[Span], outcomes: Sequence[Outcome]) -> list[TokenEvent]:
        """What came of `spans`, and the events of `schedule`. A span whose request has ended meanwhile is dropped."""
        events, self._ended = self._ended, []
        running = RequestState.RUNNING
        for span, outcome in zip(spans, outcomes, strict=True):
            request = span.request
            if request.state is not running or request.num_computed != span.start:
                continue
            event = self._advance(request, span, outcome)
            if event is not None:
                events.append(event)
        return events

    def load(self) -> Load:
        """Its part of the engine's; steps are not counted here."""
        usage = self._cache.usage
        return Load(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_blocks_used=usage.used_blocks,
            kv_blocks_total=usage.total_blocks,
            computed_tokens=self._computed_tokens,
            prefix_hit_tokens=self._prefix_hit_tokens,
            preemptions=self._preemptions,
        )

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self._cache.check()
        for queue, state in ((self._running, RequestState.RUNNING), (self._waiting, RequestState.WAITING)):
            assert queue == sorted(queue, key=_order), "a queue is out of order"
            assert all(request.state is state for request in queue), [request.id for request in queue]
        assert {id(r) for r in self._requests.values()} == {id(r) for r in self._running + self._waiting}
        assert not any(request.block_tables for request in self._waiting), "a waiting request holds blocks"
        assert self._waits.keys() <= {request.id for request in self._waiting}, "a wait outlives its request"

    # -- schedule ------------------------------------------------------------------------------------------------------

    def _end_late(self, now_s: float) -> None:
        if now_s < self._next_deadline_s:
            return
        for request in list(self._requests.values()):
            if request.deadline_s is not None and request.deadline_s <= now_s:
                self._ended.append(self._end(request, FinishReason.TIMEOUT))
        deadlines = (request.deadline_s for request in self._requests.values())
        self._next_deadline_s = min((at_s for at_s in deadlines if at_s is not None), default=math.inf)

    def _end_broken(self) -> None:
        """Those whose grammar cannot be followed any more."""
        for request in list(self._bound.values()):
            binding = request.binding
            if binding is not None and binding.is_ready and binding.broken is not None:
                self._ended.append(self._end(request, binding.broken.finish, error=binding.broken.error))

    def _serve_decodes(self, plan: _Plan) -> list[Request]:
        """Give each running request that lacks one token its token; returns those that lack more."""
        catching_up = []
        for request in tuple(self._running):
            if request.state is not RequestState.RUNNING:
                continue  # preempted by one before
            if request.is_held:
                continue
            if request.num_tokens - request.num_computed > 1:
                catching_up.append(request)
            elif self._reserve(request, 1, plan):
                plan.add(request, 1)
        return catching_up

    def _catch_up(self, request: Request, plan: _Plan) -> None:
        length = self._span_length(request, request.num_computed, plan)
        if self._reserve(request, length, plan):
            plan.add(request, length)

    def _span_length(self, request: Request, start: int, plan: _Plan) -> int:
        return min(request.num_tokens - start, plan.budget, self._cache.max_span_tokens)

    def _reserve(self, request: Request, length: int, plan: _Plan) -> bool:
        """Room for the next `length` tokens, preempting the worst until it is found; False if that was itself."""
        start = request.num_computed
        stop = start + length
        while not self._cache.extend(request.block_tables, start, stop):
            if stop > self._cache.capacity_tokens:
                self._end_too_large(request)
                return False
            victim = self._running[-1]
            self._preempt(victim, plan)
            if victim is request:
                return False
        return True

    def _admit_before(self, other: Request | None, plan: _Plan) -> None:
        """Admit waiting requests in order, up to the place of `other`, as long as there is room."""
        waiting = self._waiting
        while plan.admits and plan.budget and plan.next_waiting < len(waiting):
            request = waiting[plan.next_waiting]
            if other is not None and _order(request) > _order(other):
                return
            if request.num_tokens > self._cache.capacity_tokens:
                self._end_too_large(request)
                continue
            if request.is_held or self._waits_on(request):
                plan.next_waiting += 1
                continue
            keys = self._shareable_keys(request)
            hit = self._cache.match(keys)
            if self._finds_producer(request, keys, hit):
                plan.next_waiting += 1
            elif not self._admit(request, keys[:hit], plan):
                plan.admits = False

    def _shareable_keys(self, request: Request) -> Sequence[BlockKey]:
        """Keys of the blocks that a hit may cover: all full ones that leave at least one token to compute."""
        if not self._cache.has_prefix_cache or request.needs_every_row:
            return ()
        count = (request.num_tokens - 1) // self._cache.block_size
        self._key_blocks(request, count)
        return request.block_keys[:count]

    def _waits_on(self, request: Request) -> bool:
        wait = self._waits.get(request.id)
        if wait is None:
            return False
        if wait.is_over:
            del self._waits[request.id]
        return not wait.is_over

    def _finds_producer(self, request: Request, keys: Sequence[BlockKey], hit: int) -> bool:
        """Whether a running request, no worse in priority, computes the block that `request` would compute first."""
        if hit == len(keys):
            return False
        size = self._cache.block_size
        for other in self._running:
            if other.priority > request.priority:
                return False
            theirs = other.block_keys
            if other.num_computed < (hit + 1) * size and len(theirs) > hit and theirs[hit] == keys[hit]:
                self._waits[request.id] = _Wait(other, (hit + 1) * size)
                return True
        return False

    def _admit(self, request: Request, hit_keys: Sequence[BlockKey], plan: _Plan) -> bool:
        """Let the waiting request run, at the expense of those of worse priority if need be; False: not now."""
        if self.limits.whole_spans and request.num_tokens > plan.budget:
            return False
        tables = self._find_room(request, hit_keys)
        while tables is None:
            if not self._running or self._running[-1].priority <= request.priority:
                return False
            self._preempt(self._running[-1], plan)
            tables = self._find_room(request, hit_keys)
        start = len(hit_keys) * self._cache.block_size
        length = self._span_length(request, start, plan)
        if not self._cache.extend(tables, start, start + length):
            self._cache.release(tables)
            return False
        self._unqueue(self._waiting, request)
        insort(self._running, request, key=_order)
        request.state = RequestState.RUNNING
        request.block_tables = tables
        request.num_computed = start
        if request.cached_tokens is None:
            request.cached_tokens = min(start, len(request.prompt))
            self._prefix_hit_tokens += request.cached_tokens
        plan.add(request, length)
        return True

    def _find_room(self, request: Request, hit_keys: Sequence[BlockKey]) -> list[BlockTable] | None:
        """Tables for a request to be admitted. A block for each running one stays free, or it would soon take one."""
        if len(self._running) >= self.limits.max_requests:
            return None
        return self._cache.admit(hit_keys, request.num_tokens, spare=len(self._running))

    def _preempt(self, request: Request, plan: _Plan) -> None:
        plan.drop(request)
        self._stop(request)
        request.num_computed = 0
        request.state = RequestState.WAITING
        if not request.is_reported:
            request.prompt_logprobs = None
        request.pooled = None
        insort(self._waiting, request, key=_order)
        self._preemptions += 1

    # -- commit --------------------------------------------------------------------------------------------------------

    def _advance(self, request: Request, span: Span, outcome: Outcome) -> TokenEvent | None:
        if outcome.error is not None:
            return self._end(request, FinishReason.ERROR, error=outcome.error)
        stop = span.start + span.length
        request.num_computed = stop
        self._computed_tokens += span.length
        size = self._cache.block_size
        if self._cache.has_prefix_cache and stop // size > span.start // size:
            self._key_blocks(request, stop // size)
            self._cache.publish(request.block_keys, request.block_tables, span.start // size, stop // size)
        if outcome.prompt_logprobs and not request.is_reported:
            if request.prompt_logprobs is None:
                request.prompt_logprobs = [None]
            request.prompt_logprobs.extend(outcome.prompt_logprobs)
        request.pooled = outcome.pooled
        if not span.samples:
            return None
        return self._gain(request, outcome) if request.pooling is None else self._embed(request, outcome)

    def _gain(self, request: Request, outcome: Outcome) -> TokenEvent:
        """Append the accepted tokens up to the first that ends the request, and report them."""
        tokens: list[int] = []
        finish = FinishReason.LENGTH if request.params.max_tokens == 0 else None
        for token in outcome.tokens:
            if finish is not None:
                break
            request.output.append(token)
            tokens.append(token)
            finish = finish_reason(request, self.limits)
        if not tokens and finish is None:
            return self._end(request, FinishReason.ERROR, error="the model returned no token")
        logprobs = None if outcome.logprobs is None else list(outcome.logprobs[: len(tokens)])
        if request.is_reported:
            event = TokenEvent(request.id, tokens, finish, logprobs)
        else:
            event = TokenEvent(
                request.id, tokens, finish, logprobs, _prompt_logprobs(request), cached_tokens=request.cached_tokens
            )
            request.is_reported = True
            request.prompt_logprobs = None
        if finish is not None:
            self._retire(request)
        elif request.binding is not None:
            request.binding.advance(tokens)
        return event

    def _embed(self, request: Request, outcome: Outcome) -> TokenEvent:
        if outcome.embedding is None:
            return self._end(request, FinishReason.ERROR, error="the model returned no embedding")
        self._retire(request)
        cached_tokens = request.cached_tokens
        return TokenEvent(request.id, [], FinishReason.STOP, cached_tokens=cached_tokens, embedding=outcome.embedding)

    def _key_blocks(self, request: Request, count: int) -> None:
        """Compute the keys of its first `count` blocks, as far as they are missing."""
        keys, size = request.block_keys, self._cache.block_size
        if len(keys) < count:
            missing = request.tokens(len(keys) * size, count * size)
            after = keys[-1] if keys else None
            keys += block_keys(missing, size, salt=request.salt, version=request.policy_version, after=after)

    # -- ending --------------------------------------------------------------------------------------------------------

    def _end_too_large(self, request: Request) -> None:
        message = f"request too large: {request.num_tokens} tokens (the KV pool holds {self._cache.capacity_tokens})"
        self._ended.append(self._end(request, FinishReason.ERROR, error=message))

    def _end(self, request: Request, finish: FinishReason, *, error: str | None = None) -> TokenEvent:
        self._retire(request)
        return TokenEvent(request.id, [], finish, error=error)

    def _retire(self, request: Request) -> None:
        """Free all that it holds."""
        if request.state is RequestState.RUNNING:
            self._stop(request)
        else:
            self._unqueue(self._waiting, request)
        request.state = RequestState.FINISHED
        del self._requests[request.id]
        if request.binding is not None:
            request.binding.drop()
            del self._bound[request.id]

    def _stop(self, request: Request) -> None:
        self._unqueue(self._running, request)
        self._cache.release(request.block_tables)
        request.block_tables = []

    def _unqueue(self, queue: list[Request], request: Request) -> None:
        index = bisect_left(queue, _order(request), key=_order)
        assert queue[index] is request, request.id
        del queue[index]
        self._waits.pop(request.id, None)


def finish_reason(request: Request, limits: SchedulerLimits) -> FinishReason | None:
    """Why a request ends after its last output token, if it does. A stop token counts from min_tokens + 1 on."""
    output, params = request.output, request.params
    num_output = len(output)
    if num_output > params.min_tokens:
        token = output[-1]
        if token in params.stop_token_ids or (token in limits.eos_token_ids and not params.ignore_eos):
            return FinishReason.STOP
    if num_output >= params.max_tokens or len(request.prompt) + num_output >= limits.max_context:
        return FinishReason.LENGTH
    return None


def _order(request: Request) -> tuple[int, int]:
    return request.priority, request.arrival


def _prompt_logprobs(request: Request) -> list[Logprob | None] | None:
    if request.params.prompt_logprobs is None:
        return None
    return request.prompt_logprobs or [None]
