import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.core.spec import FakeModel
from dayzero.engine.batch import Outcome
from dayzero.engine.request import RequestState
from dayzero.engine.scheduler import SchedulerLimits
from dayzero.errors import ConfigError
from tests.engine.world import FULL, WINDOW, Setting, World, reference

ENDLESS = FakeModel(vocab_size=32)
ENCODER = Setting(groups=(), blocks=(), prefix_cache=False, whole_spans=True, max_step_tokens=64, model=ENDLESS)


def commit(world, *outcomes):
    """Schedule a step and commit it with these outcomes; events by request."""
    world.endpoints.schedule()
    return {event.request_id: event for event in world.endpoints.commit(outcomes)}


# -- spans -----------------------------------------------------------------------------------------------------------


def test_a_prompt_larger_than_the_budget_is_computed_in_chunks():
    world = World(Setting(max_step_tokens=16, model=ENDLESS))
    world.submit(range(1, 31))
    world.step()
    world.step()
    assert world.runner.decisions == [[(0, 0, 16)], [(0, 16, 14)]]


def test_a_long_prompt_never_holds_up_those_that_decode():
    world = World(Setting(max_step_tokens=10, model=ENDLESS))
    first = world.submit([1], max_tokens=30)
    second = world.submit([2], max_tokens=30)
    world.step()
    long = world.submit([3] * 50)
    for _ in range(5):
        world.step()
        assert world.spans()[:2] == [(first, world.spans()[0][1], 1), (second, world.spans()[1][1], 1)]
        assert world.spans()[2][0] == long
        assert world.spans()[2][2] == 8


def test_prompts_are_computed_in_order_of_arrival():
    world = World(Setting(max_step_tokens=8, max_requests=8, model=ENDLESS))
    for i in range(4):
        world.submit([10 + i] * 12)
    world.step()
    assert world.spans() == [(0, 0, 8)]
    world.step()
    assert world.spans() == [(0, 8, 4), (1, 0, 4)]
    world.step()
    assert world.spans() == [(0, 12, 1), (1, 4, 7)]


def test_a_lower_priority_number_is_computed_first_and_never_loses_its_order():
    world = World(Setting(max_step_tokens=8, model=ENDLESS))
    world.submit([1] * 24, priority=1)
    world.step()
    urgent = world.submit([2] * 10, priority=0)
    world.step()
    assert world.spans() == [(urgent, 0, 8)]
    world.step()
    assert world.spans() == [(urgent, 8, 2), (0, 8, 6)]


def test_no_more_requests_run_than_may_run():
    world = World(Setting(max_requests=3, model=ENDLESS))
    for i in range(5):
        world.submit([i + 1])
    world.step()
    assert [span[0] for span in world.spans()] == [0, 1, 2]
    assert world.report.load.waiting == 2
    world.drain()


def embed(world, length, **kwargs):
    return world.submit([1] * length, max_tokens=0, pooling="mean", **kwargs)


def test_an_encoder_computes_a_text_in_one_span_or_waits_with_it():
    world = World(ENCODER)
    for length in (30, 40, 20, 64, 1):
        embed(world, length)
    world.drain()
    assert world.runner.decisions == [[(0, 0, 30)], [(1, 0, 40), (2, 0, 20)], [(3, 0, 64)], [(4, 0, 1)]]
    assert all(events[-1].embedding for events in world.events.values())


def test_an_encoder_computes_no_more_texts_in_a_step_than_may_run():
    world = World(ENCODER)
    for _ in range(20):
        embed(world, 2)
    world.drain()
    assert [len(spans) for spans in world.runner.decisions] == [8, 8, 4]


def test_an_encoder_refuses_to_generate():
    world = World(ENCODER)
    request = world.submit([1, 2])
    (event,) = world.step()
    assert (event.request_id, event.finish) == (request, FinishReason.ERROR)
    assert "embeddings" in event.error


def test_an_encoder_whose_step_cannot_hold_its_context_is_refused():
    with pytest.raises(ConfigError, match=r"63 is below max_context \(64\)"):
        SchedulerLimits(max_step_tokens=63, max_requests=8, max_context=64, eos_token_ids=frozenset(), whole_spans=True)


def test_limits_that_cannot_serve_every_running_request_are_refused():
    with pytest.raises(ConfigError):
        SchedulerLimits(max_step_tokens=8, max_requests=9, max_context=64, eos_token_ids=frozenset())


# -- admission and preemption ----------------------------------------------------------------------------------------


def test_a_large_request_is_not_overtaken_by_small_ones():
    world = World(Setting(blocks=(10,), model=ENDLESS))
    world.submit([1] * 20, max_tokens=8)
    world.step()
    large = world.submit([2] * 30, max_tokens=1)
    small = world.submit([3], max_tokens=1)
    while not world.finish(0):
        assert not world.events[small]
        world.step()
    world.drain()
    assert world.finish(large) is FinishReason.LENGTH


@pytest.mark.parametrize(("length", "is_admitted"), [(16, True), (17, False)])
def test_admission_leaves_a_block_for_each_that_runs(length, is_admitted):
    world = World(Setting(blocks=(10,), max_step_tokens=40, model=ENDLESS))
    world.submit([1] * 18, max_tokens=2)  # 5 blocks, and no more
    world.step()
    world.submit([2] * length)
    world.step()
    assert (len(world.spans()) == 2) == is_admitted
    world.drain()


def test_the_youngest_loses_its_blocks_and_keeps_its_tokens():
    world = World(Setting(blocks=(8,), model=ENDLESS))
    old = world.submit([1, 2, 3, 4], max_tokens=20)
    young = world.submit([5, 6, 7, 8], max_tokens=20)
    while not world.scheduler.load().preemptions:
        world.step()
    assert [r.id for r in world.scheduler._running] == [old]
    assert [r.id for r in world.scheduler._waiting] == [young]
    world.drain()
    for request_id in (old, young):
        assert world.tokens(request_id) == reference(world.submits[request_id], world.setting)[0]


def test_a_better_priority_takes_the_place_of_a_worse_one():
    world = World(Setting(max_requests=1, model=ENDLESS))
    world.submit([1], priority=5, max_tokens=20)
    world.step()
    urgent = world.submit([2], priority=0, max_tokens=1)
    world.step()
    assert world.finish(urgent) is FinishReason.LENGTH
    assert world.scheduler.load().preemptions == 1
    world.drain()
    assert world.tokens(0) == reference(world.submits[0], world.setting)[0]


def test_a_request_that_lost_its_place_may_run_again_in_the_same_step():
    world = World(Setting(groups=(FULL, WINDOW), blocks=(30, 5), max_step_tokens=7, max_requests=4, model=ENDLESS))
    large = world.submit([1] * 24, priority=1)
    for _ in range(3):
        world.step()  # in the end it holds all blocks of the window group
    urgent = world.submit([2] * 2, priority=0)
    world.step()
    assert world.report.load.preemptions == 1
    assert world.spans() == [(urgent, 0, 2), (large, 20, 4)]
    world.drain()


def test_an_equal_priority_waits_for_its_turn():
    world = World(Setting(max_requests=1, model=ENDLESS))
    world.submit([1], max_tokens=5)
    world.step()
    world.submit([2])
    world.drain()
    assert world.scheduler.load().preemptions == 0


def test_a_prompt_that_never_fits_ends_with_an_error_and_holds_up_nobody():
    world = World(Setting(blocks=(5,), model=ENDLESS))
    world.submit([1] * 21)
    world.submit([2] * 4, max_tokens=1)
    world.step()
    assert world.events[0] == [
        TokenEvent(0, [], FinishReason.ERROR, error="request too large: 21 tokens (the KV pool holds 20)")
    ]
    assert world.finish(1) is FinishReason.LENGTH


def test_a_request_that_outgrows_the_pool_ends_with_an_error():
    world = World(Setting(blocks=(5,), model=ENDLESS))
    world.submit([1] * 16, max_tokens=40)
    world.drain()
    assert world.finish(0) is FinishReason.ERROR
    assert len(world.tokens(0)) == 5


def test_a_window_pool_that_holds_one_window_serves_a_long_prompt_in_short_spans():
    world = World(Setting(groups=(FULL, WINDOW), blocks=(16, 4), model=ENDLESS))
    world.submit([1] * 50, max_tokens=5)
    world.drain()
    assert len(world.tokens(0)) == 5
    assert max(span[2] for spans in world.runner.decisions for span in spans) == world.cache.max_span_tokens < 16


# -- prefixes --------------------------------------------------------------------------------------------------------


def test_a_hit_leaves_at_least_one_token_to_compute():
    world = World(Setting(model=ENDLESS))
    prompt = list(range(1, 13))
    world.submit(prompt)
    world.drain()
    again = world.submit(prompt)
    world.drain()
    assert world.events[0][0].cached_tokens == 0
    assert world.events[again][0].cached_tokens == 8


def test_the_output_of_one_turn_is_a_hit_of_the_next():
    world = World(Setting(model=ENDLESS))
    first = world.submit([1, 2, 3], max_tokens=9)
    world.drain()
    second = world.submit([1, 2, 3, *world.tokens(first), 7])
    world.drain()
    assert world.events[second][0].cached_tokens == 8  # the last token of the first turn was never computed


@pytest.mark.parametrize("other", [{"salt": "b"}, {"params": {"prompt_logprobs": 0}}])
def test_another_tenant_or_prompt_logprobs_compute_the_prompt(other):
    world = World(Setting(model=ENDLESS))
    prompt = list(range(1, 13))
    world.submit(prompt, salt="a")
    world.drain()
    second = world.submit(prompt, **{"salt": "a", **other})
    world.drain()
    assert world.events[second][0].cached_tokens == 0


def test_choices_of_one_prompt_compute_it_once():
    world = World(Setting(max_step_tokens=8, model=ENDLESS))
    prompt = list(range(1, 22))
    for choice in range(4):
        world.submit(prompt, choice=choice, max_tokens=1)
    world.submit([9, 9], max_tokens=1)
    world.step()
    world.step()
    assert world.spans() == [(0, 8, 8)]
    world.step()
    assert world.spans() == [(0, 16, 5), (4, 0, 2)]  # nobody else is held up
    world.step()
    assert world.spans() == [(1, 20, 1), (2, 20, 1), (3, 20, 1)]
    assert len({tuple(world.tokens(choice)) for choice in range(4)}) > 1


@pytest.mark.parametrize(("num_kept", "hit"), [(None, 16), (11, 16), (10, 12), (2, 4), (0, 4)])
def test_what_an_abort_does_not_keep_is_forgotten(num_kept, hit):
    world = World(Setting(model=ENDLESS))
    first = world.submit([1, 2, 3, 4, 5], max_tokens=40)
    while len(world.tokens(first)) < 13:
        world.step()
    said = world.tokens(first)
    world.engine.abort(first, num_kept)
    world.drain()
    again = world.submit([1, 2, 3, 4, 5, *said])
    world.drain()
    assert world.events[again][0].cached_tokens == hit


def test_an_abort_forgets_nothing_that_another_request_holds():
    world = World(Setting(model=ENDLESS))
    first = world.submit([1, 2, 3, 4, 5], max_tokens=40)
    while len(world.tokens(first)) < 13:
        world.step()
    other = world.submit([1, 2, 3, 4, 5, *world.tokens(first)], max_tokens=40)
    world.step()
    world.engine.abort(first, 0)
    world.step()
    world.scheduler.check()
    world.engine.abort(other)
    third = world.submit([1, 2, 3, 4, 5, *world.tokens(first)])
    world.drain()
    assert world.events[third][0].cached_tokens == 16


def test_a_preempted_request_that_is_aborted_is_forgotten_too():
    world = World(Setting(blocks=(6,), model=ENDLESS))
    first = world.submit([1, 2, 3, 4, 5], max_tokens=15, priority=1)
    while len(world.tokens(first)) < 8:
        world.step()
    said = world.tokens(first)
    world.submit(list(range(1, 18)), max_tokens=2)
    world.step()
    assert world.report.load.waiting == 1
    world.engine.abort(first, 0)
    world.drain()
    again = world.submit([1, 2, 3, 4, 5, *said])
    world.drain()
    assert world.events[again][0].cached_tokens == 4


def test_who_waits_for_a_prefix_computes_it_when_its_producer_is_gone():
    world = World(Setting(max_step_tokens=8, model=ENDLESS))
    prompt = list(range(1, 22))
    world.submit(prompt)
    world.submit(prompt)
    world.step()
    assert world.spans() == [(0, 0, 8)]
    world.engine.abort(0)
    world.step()
    assert world.spans() == [(1, 8, 8)]
    world.drain()


def test_nobody_waits_for_the_prefix_of_a_worse_priority():
    world = World(Setting(max_step_tokens=8, model=ENDLESS))
    prompt = list(range(1, 22))
    world.submit(prompt, priority=1)
    world.step()
    world.submit(prompt, priority=0)
    world.step()
    assert world.spans() == [(1, 8, 8)]
    world.drain()


# -- ends ------------------------------------------------------------------------------------------------------------


def ends_at(world, tokens, **kwargs):
    """Tokens and finish of a request whose model says `tokens`, one accepted run."""
    world.submit([1], **kwargs)
    event = commit(world, Outcome(tuple(tokens)))[0]
    return event.tokens, event.finish


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"max_tokens": 9}, ([5, 6, 0], FinishReason.STOP)),
        ({"max_tokens": 2}, ([5, 6], FinishReason.LENGTH)),
        ({"max_tokens": 3}, ([5, 6, 0], FinishReason.STOP)),
        ({"max_tokens": 9, "params": {"ignore_eos": True}}, ([5, 6, 0, 7], None)),
        ({"max_tokens": 9, "params": {"stop_token_ids": (6,)}}, ([5, 6], FinishReason.STOP)),
        ({"max_tokens": 9, "params": {"stop_token_ids": (6,), "min_tokens": 2}}, ([5, 6, 0], FinishReason.STOP)),
        ({"max_tokens": 9, "params": {"stop_token_ids": (7,), "min_tokens": 3}}, ([5, 6, 0, 7], FinishReason.STOP)),
    ],
)
def test_an_accepted_run_is_cut_where_the_request_ends(kwargs, expected):
    assert ends_at(World(), [5, 6, 0, 7], **kwargs) == expected


def test_the_end_of_the_context_ends_a_request():
    world = World(Setting(max_context=6, model=ENDLESS))
    world.submit([1, 2, 3], max_tokens=100)
    world.drain()
    assert len(world.tokens(0)) == 3
    assert world.finish(0) is FinishReason.LENGTH


def test_logprobs_are_cut_with_their_tokens():
    world = World()
    world.submit([1], max_tokens=1, params={"logprobs": 0})
    both = (Logprob(5, -1.0, 1), Logprob(6, -1.0, 1))
    assert commit(world, Outcome((5, 6), both))[0].logprobs == [both[0]]


def test_an_outcome_with_an_error_ends_its_request_alone():
    world = World(Setting(model=ENDLESS))
    world.submit([1])
    world.submit([2])
    events = commit(world, Outcome(error="logits are not finite"), Outcome((5,)))
    assert events[0] == TokenEvent(0, [], FinishReason.ERROR, error="logits are not finite")
    assert events[1].tokens == [5]
    assert 0 not in world.scheduler


def test_a_model_that_says_nothing_ends_the_request_instead_of_the_loop():
    world = World()
    world.submit([1])
    assert commit(world, Outcome())[0].finish is FinishReason.ERROR


def test_the_outcome_of_a_request_aborted_during_the_step_is_dropped():
    world = World(Setting(model=ENDLESS))
    world.submit([1, 2])
    world.submit([3])
    world.endpoints.schedule()
    assert world.scheduler.abort(0) == TokenEvent(0, [], FinishReason.ABORT)
    assert world.scheduler.abort(0) is None
    events = world.endpoints.commit([Outcome((5,)), Outcome((6,))])
    assert [event.request_id for event in events] == [1]
    world.scheduler.check()


@pytest.mark.parametrize("max_requests", [1, 2])
def test_a_deadline_ends_a_request_whether_it_runs_or_waits(max_requests):
    world = World(Setting(max_requests=max_requests, model=ENDLESS))
    world.submit([1], max_tokens=50)
    late = world.submit([2], max_tokens=50, deadline_s=1.0)
    world.step()
    world.clock.advance(0.5)
    world.step()
    assert not world.finish(late)
    world.clock.advance(0.5)
    world.step()
    assert world.finish(late) is FinishReason.TIMEOUT
    assert not world.finish(0)


def test_prompt_logprobs_are_gathered_over_chunks_and_come_with_the_first_token():
    world = World(Setting(max_step_tokens=8, model=ENDLESS))
    prompt = list(range(1, 22))
    world.submit(prompt, params={"prompt_logprobs": 2})
    world.drain()
    first, *rest = world.events[0]
    assert first.prompt_logprobs[0] is None
    assert [entry.token for entry in first.prompt_logprobs[1:]] == prompt[1:]
    assert {len(entry.top) for entry in first.prompt_logprobs[1:]} == {2}
    assert all(event.prompt_logprobs is None for event in rest)


def test_prompt_logprobs_survive_a_preemption_within_the_prompt():
    world = World(Setting(max_step_tokens=8, max_requests=1, model=ENDLESS))
    prompt = list(range(1, 22))
    world.submit(prompt, priority=1, params={"prompt_logprobs": 0})
    world.step()
    world.submit([1], max_tokens=1)
    world.drain()
    assert world.scheduler.load().preemptions == 1
    assert [entry.token for entry in world.events[0][0].prompt_logprobs[1:]] == prompt[1:]


@pytest.mark.parametrize("prompt", [[1], list(range(1, 22))])
def test_max_tokens_zero_reports_the_prompt_and_no_token(prompt):
    world = World(Setting(model=ENDLESS))
    world.submit(prompt, max_tokens=0, params={"prompt_logprobs": 0})
    world.drain()
    (event,) = world.events[0]
    assert event.tokens == []
    assert event.finish is FinishReason.LENGTH
    assert len(event.prompt_logprobs) == len(prompt)


def test_a_resumed_request_reports_only_what_is_new_and_counts_what_is_old():
    world = World(Setting(model=ENDLESS))
    whole = world.submit([1, 2, 3], max_tokens=10)
    world.drain()
    resumed = world.submit([1, 2, 3], max_tokens=10, committed=world.tokens(whole)[:6])
    world.drain()
    assert world.tokens(resumed) == world.tokens(whole)[6:]


# -- properties ------------------------------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=12),
    budget=st.integers(4, 24),
    blocks=st.integers(8, 24),
    shared=st.integers(0, 12),
)
def test_within_a_priority_the_first_tokens_come_in_order_of_arrival(lengths, budget, blocks, shared):
    world = World(Setting(max_step_tokens=budget, max_requests=4, blocks=(blocks,), prefix_cache=False, model=ENDLESS))
    for number, length in enumerate(lengths):
        world.submit([7] * shared + [number + 1] * length, max_tokens=1)
    order = []
    while world.engine.has_work:
        order += [event.request_id for event in world.step() if event.tokens]
        assert world.runner.batch.num_tokens <= budget
    assert order == sorted(order)
    world.drain()


@settings(derandomize=True, max_examples=60, deadline=None)
@given(prompts=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=20), min_size=1, max_size=10), data=st.data())
def test_all_requests_make_progress_in_a_pool_that_barely_holds_one(prompts, data):
    windows = data.draw(st.booleans())
    world = World(
        Setting(
            groups=(FULL, WINDOW) if windows else (FULL,),
            blocks=(7, 5) if windows else (7,),
            max_step_tokens=data.draw(st.integers(8, 16)),
            model=ENDLESS,
        )
    )
    for prompt in prompts:
        world.submit(prompt, max_tokens=8)
    world.drain(max_steps=20 * 8 * len(prompts))
    for request_id, message in world.submits.items():
        assert (world.tokens(request_id), world.finish(request_id)) == reference(message, world.setting)


def test_check_sees_a_waiting_request_that_holds_blocks():
    world = World()
    world.submit([1])
    request = world.scheduler._requests[0]
    assert request.state is RequestState.WAITING
    request.block_tables = [[1]]
    with pytest.raises(AssertionError, match="holds blocks"):
        world.scheduler.check()
