"""Runs the choices of one API request at an engine, and sees to it that all of them end.

Knows no HTTP and no view: it is given a sink for deltas.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from dayzero.clock import Clock
from dayzero.core.constraint import Constraint
from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.errors import InternalError
from dayzero.gateway.errors import DeadlinePassed, root_cause
from dayzero.gateway.guard import NO_THOUGHTS, UNGUARDED, Guard, GuardPolicy
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.stream import ChoiceStream, Delta, Echo, StreamRules
from dayzero.router.replica import Replica
from dayzero.text.tokenizer import Tokenizer
from dayzero.wire.messages import Submit

Sink = Callable[[Delta], Awaitable[None]]

# The engine ends a late request itself, with TIMEOUT; this is for an engine that hangs.
DEADLINE_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt; its limit on output depends on its length, so it has parameters of its own."""

    tokens: list[int]
    params: SamplingParams
    echo: Echo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One API request, ready to run: every prompt gets `num_choices` choices.

    endpoint     what the engine calls it
    received_s   on the gateway's clock
    constraint   what binds every output
    """

    prompts: Sequence[Prompt]
    num_choices: int
    rules: StreamRules
    salt: str
    tenant: str
    priority: int
    received_s: float
    deadline_s: float
    constraint: Constraint | None = None
    endpoint: str = ""
    guard: GuardPolicy = UNGUARDED

    @property
    def prompt_tokens(self) -> int:
        return sum(len(prompt.tokens) for prompt in self.prompts)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one API request; a prompt counts once, however many choices it has."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int = 0


@contextlib.asynccontextmanager
async def until_deadline(deadline_s: float) -> AsyncIterator[None]:
    """Leave an engine that does not end a request itself. Raises DeadlinePassed, or what a group of tasks ended of."""
    try:
        async with asyncio.timeout(deadline_s + DEADLINE_GRACE_S):
            yield
    except TimeoutError:
        raise DeadlinePassed("the request took longer than it may") from None
    except BaseExceptionGroup as bundle:
        raise root_cause(bundle) from None


class Generator:
    """Turns work into deltas."""

    def __init__(
        self,
        replica: Replica,
        tokenizer: Tokenizer,
        metrics: Metrics,
        clock: Clock,
        others: Sequence[Replica] = (),
    ) -> None:
        """others: replicas of the same model, to which an output goes that collapsed here twice"""
        self._replicas = (replica, *others)
        self._tokenizer = tokenizer
        self._metrics = metrics
        self._clock = clock

    def streams(self, work: Work) -> list[ChoiceStream]:
        """One for each choice, in the order of their indices."""
        return [
            ChoiceStream(number * work.num_choices + choice, self._tokenizer, work.rules, prompt.echo)
            for number, prompt in enumerate(work.prompts)
            for choice in range(work.num_choices)
        ]

    async def run(self, work: Work, streams: Sequence[ChoiceStream], sink: Sink) -> Usage:
        """Feed the sink until every choice has ended. However it is left, no choice goes on at the engine.

        Raises DeadlinePassed, ReplicaLost or InternalError; the other choices are aborted then.
        """
        self._metrics.prompt_tokens.inc(work.prompt_tokens)
        try:
            async with until_deadline(work.deadline_s):
                if len(streams) == 1:
                    await self._run_choice(work, streams[0], sink)
                else:
                    async with asyncio.TaskGroup() as group:
                        for stream in streams:
                            group.create_task(self._run_choice(work, stream, sink))
        finally:
            self._metrics.output_tokens.inc(sum(stream.num_tokens for stream in streams))
        return usage_of(work, streams)

    async def _run_choice(self, work: Work, stream: ChoiceStream, sink: Sink) -> None:
        clock, latency = self._clock, self._metrics.latency(work.endpoint)
        submit = self._submit(work, stream.index)
        guard = self._guard(work, submit)
        source = self._replicas[0].generate(submit) if guard is None else self._guarded(submit, stream, guard)
        last_s = None
        async with contextlib.aclosing(source) as events:  # type: ignore[type-var]
            async for event in events:
                delta = stream.push(event)
                if delta is not None:
                    if guard is not None and delta.finish is not None:
                        delta = self._told(delta, delta.finish, guard)
                    await sink(delta)
                if event.tokens:
                    now_s = clock.now_s()
                    if last_s is None:
                        latency.first(now_s - work.received_s)
                    else:
                        latency.next(now_s - last_s)
                    last_s = now_s
                    for _ in range(len(event.tokens) - 1):
                        latency.next(0.0)
                if stream.is_finished:
                    if stream.has_misread and work.rules.reading is not None:
                        self._metrics.tool_parse_failures.labels(work.rules.reading.format.name).inc()
                    return
        raise InternalError("the engine's events ended without a terminal one")

    def _guard(self, work: Work, submit: Submit) -> Guard | None:
        if work.guard.mode == "off":
            return None
        reading = work.rules.reading
        spelt = self._tokenizer.bytes_by_id(skip_special=False)
        return Guard(work.guard, submit, spelt, NO_THOUGHTS if reading is None else reading.thoughts)

    async def _guarded(self, submit: Submit, stream: ChoiceStream, guard: Guard) -> AsyncIterator[TokenEvent]:
        """What may be shown of a choice, over all its attempts. `stream` takes each event before the next is made."""
        clock, metrics = self._clock, self._metrics
        begun_s, given_s = clock.now_s(), submit.deadline_s
        while True:
            number = self._place(guard.attempts)
            replica = self._replicas[number]
            metrics.guarded_attempts.labels(number).inc()
            async with contextlib.aclosing(replica.generate(submit)) as events:  # type: ignore[type-var]
                async for event in events:
                    shown = guard.admit(event)
                    if shown is not None:
                        yield shown
                    if guard.found is not None:
                        break
                else:
                    return
                if stream.would_stop(guard.unshown.tokens):
                    yield guard.unshown
                await replica.abort(submit.request_id, guard.num_shown)
            metrics.collapses.labels(number, guard.found.tier).inc()
            metrics.collapse_discarded_tokens.labels(number).inc(len(guard.unshown.tokens))
            retry = guard.retry(is_reasoning=stream.is_reasoning)
            if retry is None:
                yield TokenEvent(submit.request_id, finish=FinishReason.LENGTH)
                return
            if retry.forced:
                yield TokenEvent(submit.request_id, retry.forced)
            submit = msgspec.structs.replace(
                retry.submit,
                request_id=secrets.randbits(63),
                policy_version=self._replicas[self._place(guard.attempts)].spec.policy_version,
                deadline_s=None if given_s is None else max(0.0, given_s - (clock.now_s() - begun_s)),
            )

    def _told(self, delta: Delta, finish: str, guard: Guard) -> Delta:
        """A choice's last delta, with what the guard did."""
        collapse = guard.report(finish)
        if collapse is not None and collapse.attempts and not collapse.is_end:
            self._metrics.collapse_recoveries.labels(self._place(guard.attempts)).inc()
        return replace(delta, collapse=collapse)

    def _place(self, attempt: int) -> int:
        """Which replica serves an attempt: the first retry where its prefix is cached, later ones elsewhere if any."""
        elsewhere = [number for number in range(1, len(self._replicas)) if self._replicas[number].is_alive]
        return 0 if attempt < 2 or not elsewhere else elsewhere[(attempt - 2) % len(elsewhere)]

    def _submit(self, work: Work, index: int) -> Submit:
        number, choice = divmod(index, work.num_choices)
        prompt = work.prompts[number]
        return Submit(
            request_id=secrets.randbits(63),
            prompt=prompt.tokens,
            params=prompt.params,
            salt=work.salt,
            policy_version=self._replicas[0].spec.policy_version,
            tenant=work.tenant,
            priority=work.priority,
            deadline_s=work.deadline_s,
            choice=choice,
            constraint=work.constraint,
            endpoint=work.endpoint,
        )


def usage_of(work: Work, streams: Sequence[ChoiceStream]) -> Usage:
    """Cached tokens are those of each prompt's first choice: the others find what that one just computed."""
    return Usage(
        prompt_tokens=work.prompt_tokens,
        output_tokens=sum(stream.num_tokens for stream in streams),
        cached_tokens=sum(stream.cached_tokens for stream in streams[:: work.num_choices]),
        reasoning_tokens=sum(stream.num_reasoning_tokens for stream in streams),
    )
