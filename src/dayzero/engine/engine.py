"""The step loop: synchronous, one thread, token ids only.

Knows no sockets and no text. What a client can get wrong is answered here with a terminal event and never reaches the
scheduler, so that nothing a request carries can raise into the loop.
"""

import math

from dayzero.clock import Clock
from dayzero.core import constraint as rules
from dayzero.core import sampling
from dayzero.core.events import FinishReason, RequestId, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.engine.batch import Runner
from dayzero.engine.binding import Binder
from dayzero.engine.endpoints import Endpoints
from dayzero.engine.request import Request
from dayzero.engine.scheduler import Scheduler, finish_reason
from dayzero.errors import ContextTooLong, RequestError
from dayzero.wire.messages import EMBEDS, StepReport, Submit

HELD_S = 0.001  # how long a step that has others to serve waits for masks; one that has none waits as long at a time
MASK_S = 0.0002  # and for each mask besides: whoever sits out loses a whole step, and the others save nothing
COUNTER_RANGE = 2**32  # choice and attempt are 32-bit words of the noise counter


class Engine:
    """One replica's worth of requests. Each Submit is answered by events of which exactly one is terminal.

    poisoned  for tests: masks are (binding.py)
    """

    def __init__(
        self, endpoints: Endpoints, runner: Runner, clock: Clock, spec: EngineSpec, *, poisoned: bool = False
    ) -> None:
        self._endpoints = endpoints
        self._runner = runner
        self._clock = clock
        self._spec = spec
        self._binder = Binder(spec.vocab_size, spec.eos_token_ids, poisoned=poisoned)
        self._events: list[TokenEvent] = []  # of submit and abort, delivered by the next step

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to do or to say."""
        return bool(self._events) or self._endpoints.has_work

    def learn(self, tokenizer: str) -> None:
        """The tokenizer, as its library writes it: before the first request with a grammar."""
        self._binder.learn(tokenizer)

    def submit(self, submit: Submit) -> None:
        """Queue a request; one that cannot run ends with ERROR, one whose committed output is complete as it is."""
        scheduler = self._endpoints.find(submit.endpoint)
        error = f"endpoint not served: {submit.endpoint}" if scheduler is None else self._objection(submit, scheduler)
        if scheduler is None or error is not None:
            self._events.append(TokenEvent(submit.request_id, [], FinishReason.ERROR, error=error))
            return
        request = Request(
            id=submit.request_id,
            prompt=submit.prompt,
            params=submit.params,
            salt=submit.salt,
            policy_version=submit.policy_version,
            priority=submit.priority,
            deadline_s=None if submit.deadline_s is None else self._clock.now_s() + submit.deadline_s,
            choice=submit.choice,
            attempt=submit.attempt,
            output=list(submit.committed),
            pooling=submit.pooling,
        )
        finish = finish_reason(request, scheduler.limits) if request.output else None
        if finish is not None:
            self._events.append(TokenEvent(request.id, [], finish))
            return
        constraint = submit.constraint
        if constraint is not None and constraint.grammar:
            try:
                request.binding = self._binder.bind(constraint, submit.committed)
            except RequestError as refused:
                self._events.append(TokenEvent(request.id, [], FinishReason.ERROR, error=refused.message))
                return
        elif constraint is not None and constraint.banned:
            request.mask = self._binder.without(None, constraint.banned)
        scheduler.add(request)

    def abort(self, request_id: RequestId, num_kept: int | None = None) -> None:
        """End a request and free all it holds, at once. A no-op if it has ended. For `num_kept` see `Abort`."""
        event = self._endpoints.abort(request_id, num_kept)
        if event is not None:
            self._events.append(event)

    def step(self) -> StepReport | None:
        """Compute one span of each scheduled request. None: there was nothing to do."""
        if not self.has_work:
            return None
        self._endpoints.wait_for_masks(HELD_S, MASK_S)
        batch = self._endpoints.schedule()
        outcomes = self._runner.launch(batch).collect() if batch.spans else []
        events = [*self._events, *self._endpoints.commit(outcomes)]
        self._events.clear()
        return StepReport(events, self._endpoints.load())

    def _objection(self, submit: Submit, scheduler: Scheduler) -> str | None:
        """Why this request cannot run here, in words that may reach the client."""
        if submit.request_id in self._endpoints:
            return "request id in use"
        if submit.policy_version != self._spec.policy_version:
            return f"policy version not served: {submit.policy_version} (served: {self._spec.policy_version})"
        if submit.adapter is not None:
            return f"adapter not served: {submit.adapter}"
        if scheduler.is_full:
            return f"queue full: {scheduler.limits.max_waiting} requests wait"
        try:
            self._check_output(submit)
            self._check_tokens(submit, scheduler.limits.max_context)
            _check_counters(submit)
        except RequestError as error:
            return error.message
        return None

    def _check_output(self, submit: Submit) -> None:
        if submit.pooling is None:
            if self._spec.is_encoder:
                raise RequestError("this model makes embeddings, not text")
            sampling.check(submit.params, self._spec.vocab_size)
            if submit.constraint is not None:
                rules.check(submit.constraint, submit.params, self._spec.vocab_size)
            return
        if submit.params != EMBEDS or submit.committed or submit.constraint is not None:
            raise RequestError("an embedding has no output", param="pooling")

    def _check_tokens(self, submit: Submit, max_context: int) -> None:
        sampling.check_prompt(submit.prompt, self._spec.vocab_size)
        if submit.committed:
            sampling.check_prompt(submit.committed, self._spec.vocab_size, param="committed")
        room = max_context - min(1, submit.params.max_tokens)
        if len(submit.prompt) > room:
            raise ContextTooLong(
                prompt_tokens=len(submit.prompt),
                max_tokens=submit.params.max_tokens,
                limit=max_context,
            )


def _check_counters(submit: Submit) -> None:
    for name, value in (("choice", submit.choice), ("attempt", submit.attempt)):
        if not 0 <= value < COUNTER_RANGE:
            raise RequestError(f"{name} out of range: {value} (allowed: 0 to {COUNTER_RANGE - 1})", param=name)
    if submit.deadline_s is not None and math.isnan(submit.deadline_s):
        raise RequestError("deadline_s is not a number", param="deadline_s")
