import math

import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.spec import FakeModel
from tests.engine.world import Setting, World, reference

ENDLESS = FakeModel(vocab_size=32)


def test_an_idle_engine_has_nothing_to_say():
    world = World()
    assert not world.engine.has_work
    assert world.engine.step() is None


def test_a_step_reports_events_and_load():
    world = World(Setting(model=ENDLESS))
    world.submit([1, 2, 3, 4, 5], max_tokens=2)
    world.step()
    load = world.report.load
    assert (load.running, load.waiting, load.steps, load.computed_tokens) == (1, 0, 1, 5)
    assert (load.kv_blocks_used, load.kv_blocks_total) == (2, 64)
    world.step()
    assert world.finish(0) is FinishReason.LENGTH
    assert world.report.load.running == 0
    assert world.report.load.kv_blocks_used == 0


def test_the_duration_of_a_step_is_read_from_the_engines_clock():
    world = World(Setting(model=ENDLESS))
    world.submit([1])
    batch = world.endpoints.schedule()
    world.clock.advance(0.25)
    world.endpoints.commit(world.runner.launch(batch).collect())
    assert world.endpoints.load().step_s == 0.25


@pytest.mark.parametrize("after_steps", [0, 1, 2])
def test_an_abort_ends_a_request_in_the_next_report_and_frees_it_at_once(after_steps):
    world = World(Setting(model=ENDLESS))
    world.submit([1] * 20)
    for _ in range(after_steps):
        world.step()
    world.engine.abort(0)
    assert world.cache.usage.used_blocks == 0
    world.step()
    assert world.events[0][-1] == TokenEvent(0, [], FinishReason.ABORT)
    assert not world.engine.has_work


def test_the_abort_of_an_unknown_request_is_silent():
    world = World()
    world.engine.abort(77)
    assert not world.engine.has_work


BAD = {
    "sampling": {"params": {"temperature": math.nan}},
    "no tokens": {"max_tokens": 0},
    "empty prompt": {"prompt": []},
    "negative token": {"prompt": [-1]},
    "token beyond the vocabulary": {"prompt": [32]},
    "huge token": {"prompt": [2**70]},
    "committed token": {"committed": [32]},
    "prompt that fills the context": {"prompt": [1] * 64},
    "adapter": {"adapter": "lora"},
    "negative choice": {"choice": -1},
    "huge choice": {"choice": 2**32},
    "huge attempt": {"attempt": 2**32},
    "deadline": {"deadline_s": math.nan},
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_client_gets_wrong_is_answered_with_one_error_and_harms_nobody(name):
    world = World(Setting(model=ENDLESS))
    good = world.submit([1, 2], max_tokens=5)
    bad = world.submit(**{"prompt": [1], **BAD[name]})
    world.drain()
    (event,) = world.events[bad]
    assert event.finish is FinishReason.ERROR
    assert event.error
    assert world.tokens(good) == reference(world.submits[good], world.setting)[0]


def test_a_prompt_too_long_for_the_context_is_told_both_numbers():
    world = World(Setting(max_context=64, model=ENDLESS))
    world.submit([1] * 70, max_tokens=9)
    world.step()
    assert world.events[0][0].error == "context too long: 70 prompt tokens + 9 to generate (limit: 64)"


def test_the_longest_prompt_gains_one_token():
    world = World(Setting(max_context=64, model=ENDLESS))
    world.submit([1] * 63, max_tokens=9)
    world.drain()
    assert len(world.tokens(0)) == 1


def test_a_policy_version_that_is_not_served_is_refused_by_name():
    world = World()
    world.submit([1], policy_version="v2")
    world.step()
    assert world.events[0][0].error == "policy version not served: v2 (served: v1)"


def test_a_request_id_in_use_is_refused_and_the_first_goes_on():
    world = World(Setting(model=ENDLESS))
    world.submit([1, 2], max_tokens=3)
    world.engine.submit(world.submits[0])
    report = world.engine.step()
    assert [event.error for event in report.events] == ["request id in use", None]
    assert 0 in world.scheduler


def test_a_full_queue_refuses_what_comes_next():
    world = World(Setting(max_waiting=2, model=ENDLESS))
    for _ in range(3):
        world.submit([1])
    world.drain()
    assert [world.finish(i) for i in range(3)] == [FinishReason.LENGTH, FinishReason.LENGTH, FinishReason.ERROR]


@pytest.mark.parametrize(("committed", "finish"), [([5, 6, 7, 8], FinishReason.LENGTH), ([5, 0], FinishReason.STOP)])
def test_committed_output_that_is_complete_ends_without_a_step(committed, finish):
    world = World()
    world.submit([1], max_tokens=4, committed=committed)
    world.step()
    assert world.events[0] == [TokenEvent(0, [], finish)]
    assert world.runner.decisions == []


def test_the_committed_output_of_a_submit_is_not_changed():
    world = World(Setting(model=ENDLESS))
    world.submit([1], committed=[5])
    world.drain()
    assert world.submits[0].committed == [5]
