import pytest

from dayzero.core.events import FinishReason
from dayzero.core.spec import FakeModel
from dayzero.engine.endpoints import Endpoints, step_budgets
from dayzero.errors import ConfigError
from tests.engine.world import Setting, World, submit

ENDLESS = FakeModel(vocab_size=32)
SHORT = Setting(model=ENDLESS, max_step_tokens=16, max_context=32, blocks=(16,))
LONG = Setting(model=ENDLESS, max_step_tokens=8, max_context=256, blocks=(64,))


def world(short=SHORT, long=LONG):
    return World(short, beside={"long": long})


def tokens_of_step(this, request_id):
    return sum(length for owner, _, length in this.spans() if owner == request_id)


@pytest.mark.parametrize(
    ("busy", "budgets"),
    [((True, True), [16, 8]), ((True, False), [32, 0]), ((False, True), [0, 32]), ((False, False), [0, 0])],
)
def test_who_is_alone_gets_the_whole_step_and_nobody_else_more_than_its_own(busy, budgets):
    assert step_budgets([16, 8], busy, 32) == budgets


def test_a_long_prompt_has_a_whole_step_while_it_is_alone_and_its_own_part_beside_others():
    this = world()
    long = this.submit([1] * 100, endpoint="long")
    this.step()
    assert tokens_of_step(this, long) == 24
    short = this.submit([2], max_tokens=3)
    for _ in range(3):
        this.step()
        assert tokens_of_step(this, long) == 8
        assert tokens_of_step(this, short) == 1
    this.step()
    assert tokens_of_step(this, long) == 24
    this.drain()


def test_a_short_prompt_does_not_wait_for_long_ones_that_came_before():
    this = world()
    for _ in range(6):
        this.submit([1] * 200, endpoint="long")
    this.step()
    short = this.submit([2] * 16, max_tokens=2)
    this.step()
    assert this.tokens(short)
    this.step()
    assert this.finish(short) is FinishReason.LENGTH
    this.drain()


def test_a_full_queue_is_full_for_its_own_endpoint_alone():
    this = world(long=Setting(model=ENDLESS, max_waiting=2, max_requests=1, max_step_tokens=8))
    for _ in range(2):
        this.submit([1], endpoint="long")
    refused = this.submit([1], endpoint="long")
    short = this.submit([1])
    this.drain()
    assert this.finish(refused) is FinishReason.ERROR
    assert this.events[refused][0].error == "queue full: 2 requests wait"
    assert this.finish(short) is FinishReason.LENGTH


def test_no_more_run_than_may_at_each_endpoint():
    this = world(short=Setting(model=ENDLESS, max_requests=2), long=Setting(model=ENDLESS, max_requests=3))
    for _ in range(4):
        this.submit([1])
        this.submit([1], endpoint="long")
    this.step()
    assert [(load.running, load.waiting) for load in this.report.load.endpoints] == [(2, 2), (3, 1)]
    assert (this.report.load.running, this.report.load.waiting) == (5, 3)
    this.drain()


def test_a_request_takes_blocks_from_its_own_endpoint_alone():
    """The long ones preempt one another; the short one, younger than all, keeps what it has."""
    this = world(long=Setting(model=ENDLESS, max_context=64, blocks=(17,)))
    for i in range(3):
        this.submit([1 + i] * 20, max_tokens=30, endpoint="long")
    short = this.submit([9] * 4, max_tokens=28)
    while not this.finish(short):
        this.step()
    short_load, long_load = this.report.load.endpoints
    assert long_load.preemptions > 0
    assert short_load.preemptions == 0
    assert long_load.kv_blocks_used <= 17
    this.drain()


def test_each_endpoint_has_a_context_of_its_own():
    this = world()
    prompt = [1] * 40
    refused, served = this.submit(prompt), this.submit(prompt, endpoint="long")
    long_output = this.submit([1] * 30, max_tokens=100)
    this.drain()
    assert "context too long" in this.events[refused][0].error
    assert this.finish(served) is FinishReason.LENGTH
    assert len(this.tokens(long_output)) == 2


def test_a_prefix_is_known_to_the_endpoint_that_computed_it():
    this = world()
    prompt = list(range(1, 21))
    for endpoint, cached in (("long", 0), ("", 0), ("long", 16), ("", 16)):
        request_id = this.submit(prompt, endpoint=endpoint)
        this.drain()
        assert this.events[request_id][0].cached_tokens == cached


def test_the_same_request_has_the_same_tokens_at_each_endpoint():
    this = world()
    ids = [this.submit([5, 6, 7], seed=3, max_tokens=12, endpoint=endpoint) for endpoint in ("", "long")]
    this.drain()
    assert this.tokens(ids[0]) == this.tokens(ids[1])


def test_a_request_ends_at_whichever_endpoint_it_is():
    this = world()
    ids = [this.submit([1, 2], max_tokens=20, endpoint=endpoint) for endpoint in ("", "long")]
    this.step()
    for request_id in ids:
        this.engine.abort(request_id)
    this.step()
    assert [this.finish(request_id) for request_id in ids] == [FinishReason.ABORT] * 2
    this.drain()


def test_an_id_is_in_use_whichever_endpoint_uses_it():
    this = world()
    request_id = this.submit([1], endpoint="long")
    this.engine.submit(submit(request_id, [1]))
    assert "request id in use" in [event.error for event in this.engine.step().events]


def test_an_unknown_endpoint_is_an_error_of_the_request():
    this = world()
    request_id = this.submit([1], endpoint="other")
    this.drain()
    assert this.events[request_id][0].error == "endpoint not served: other"


def test_endpoints_that_have_more_than_a_step_together_are_refused():
    this = world()
    with pytest.raises(ConfigError, match="24 tokens together"):
        Endpoints(this.schedulers, max_step_tokens=23, clock=this.clock)
