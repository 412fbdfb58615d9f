"""One thing goes wrong at each point where it can: one terminal event each, nothing leaked, neighbours unharmed."""

from functools import partial

import pytest

from dayzero.core.events import FinishReason
from dayzero.core.spec import FakeModel
from dayzero.engine.batch import Outcome
from dayzero.engine.fake import FakeRunner
from dayzero.kv.cache import KVCache
from tests.engine.world import FULL, WINDOW, Setting, World, reference

SETTING = Setting(groups=(FULL, WINDOW), blocks=(14, 9), max_step_tokens=12, model=FakeModel(vocab_size=32))
NUM_STEPS = 40  # more than the scenario takes
ENDED_BY_THE_MODEL = (FinishReason.STOP, FinishReason.LENGTH)


class FailingCache(KVCache):
    """The n-th time that blocks are wanted there are none, `times` times in a row."""

    def __init__(self, *args, fail_at, times, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = 0
        self.failures = range(fail_at, fail_at + times)

    def admit(self, *args, **kwargs):
        self.calls += 1
        return None if self.calls in self.failures else super().admit(*args, **kwargs)

    def extend(self, *args):
        self.calls += 1
        return False if self.calls in self.failures else super().extend(*args)


class PoisonedRunner:
    """A FakeRunner that fails one request in one step."""

    def __init__(self, request_id, step):
        self._runner = FakeRunner(SETTING.model)
        self._request_id = request_id
        self._step = step

    def launch(self, batch):
        outcomes = self._runner.launch(batch).collect()
        for index, span in enumerate(batch.spans):
            if span.request.id == self._request_id and batch.number >= self._step:
                outcomes[index] = Outcome(error="logits are not finite")
        return Done(outcomes)


class InterruptedRunner:
    """A FakeRunner that is interrupted between launch and collect of one step."""

    def __init__(self, step):
        self._runner = FakeRunner(SETTING.model)
        self._step = step
        self.interrupt = None

    def launch(self, batch):
        return Done(self._runner.launch(batch).collect(), self.interrupt if batch.number == self._step else None)


class Done:
    def __init__(self, outcomes, interrupt=None):
        self._outcomes = outcomes
        self._interrupt = interrupt

    def collect(self):
        if self._interrupt is not None:
            self._interrupt()
        return self._outcomes


def scenario(**kwargs):
    """Four requests that share a prefix, chunk, wait for each other and preempt."""
    world = World(SETTING, **kwargs)
    prefix = list(range(1, 10))
    world.submit([*prefix, 11], max_tokens=12)
    world.submit([*prefix, 12, 13, 14], max_tokens=10, choice=1)
    world.submit([20] * 15, max_tokens=6, params={"prompt_logprobs": 0})
    world.submit([*prefix, 11], max_tokens=3, priority=1)
    return world


def check_tokens(world, *, faulty=()):
    """All but the faulty requests end as if alone; those got a part of their tokens."""
    for request_id, message in world.submits.items():
        tokens, finish = reference(message, SETTING)
        if request_id in faulty and world.finish(request_id) not in ENDED_BY_THE_MODEL:
            assert world.tokens(request_id) == tokens[: len(world.tokens(request_id))]
        else:
            assert (world.tokens(request_id), world.finish(request_id)) == (tokens, finish)


def test_the_scenario_chunks_hits_and_preempts():
    world = scenario().drain()
    load = world.scheduler.load()
    assert load.preemptions > 0
    assert load.prefix_hit_tokens > 0
    assert max(len(spans) for spans in world.runner.decisions) > 2
    assert load.steps < NUM_STEPS
    check_tokens(world)


@pytest.mark.parametrize("times", [1, 3, 30])
def test_the_nth_allocation_fails(times):
    fail_at = 1
    while True:
        world = scenario(cache_type=partial(FailingCache, fail_at=fail_at, times=times)).drain()
        check_tokens(world)
        if world.cache.calls < fail_at:
            break
        fail_at += 1
    assert fail_at > 40


@pytest.mark.parametrize("request_id", range(4))
def test_the_model_fails_one_request_from_step_n_on(request_id):
    finishes = set()
    for step in range(1, NUM_STEPS):
        world = scenario(runner=PoisonedRunner(request_id, step)).drain()
        check_tokens(world, faulty=(request_id,))
        finishes.add(world.finish(request_id))
    assert finishes == {FinishReason.ERROR, FinishReason.LENGTH}


@pytest.mark.parametrize("request_id", range(4))
def test_a_request_is_aborted_before_step_n(request_id):
    """B53: blocks of who had left were lost."""
    for step in range(NUM_STEPS):
        world = scenario()
        for _ in range(step):
            world.step()
        world.engine.abort(request_id)
        world.scheduler.check()
        check_tokens(world.drain(), faulty=(request_id,))


@pytest.mark.parametrize("request_id", range(4))
def test_a_request_is_aborted_while_step_n_runs(request_id):
    for step in range(1, NUM_STEPS):
        runner = InterruptedRunner(step)
        world = scenario(runner=runner)
        runner.interrupt = partial(world.engine.abort, request_id)
        check_tokens(world.drain(), faulty=(request_id,))


def test_the_deadline_of_a_request_passes_before_step_n():
    for step in range(NUM_STEPS):
        world = scenario()
        late = world.submit([5] * 7, max_tokens=9, deadline_s=1.0)
        for _ in range(step):
            world.step()
        world.clock.advance(1.0)
        check_tokens(world.drain(), faulty=(late,))
