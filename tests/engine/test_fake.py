import pytest

from dayzero.clock import FakeClock
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.engine.batch import Batch, Span
from dayzero.engine.fake import FakeRunner, FingerprintMemory, build_fake_engine
from tests.engine.world import FULL, WINDOW, request_of, submit

MODEL = FakeModel(vocab_size=32, eos_token_ids=(0,))


def running(number, prompt, *tables, **kwargs):
    """A request with block tables, ready to be computed."""
    request = request_of(submit(number, prompt, **kwargs))
    request.block_tables = [list(table) for table in tables]
    return request


def batch(*spans):
    return Batch(1, tuple(Span(*span) for span in spans))


def token(**kwargs):
    request = running(0, [1, 2, 3], **kwargs)
    return FakeRunner(FakeModel()).launch(batch((request, 0, request.num_tokens))).collect()[0].tokens


def test_a_token_depends_on_the_content_of_its_request_and_nothing_else():
    assert token(seed=1) == token(seed=1)
    others = [token(seed=2), token(seed=1, choice=1), token(seed=1, attempt=1), token(seed=1, committed=[5])]
    assert token(seed=1) not in others
    assert len(set(others)) == len(others)


def test_known_tokens_stay_the_same_across_processes_and_versions():
    assert token(seed=1) == (47457,)


def test_a_span_that_stops_short_of_the_last_token_brings_none():
    request = running(0, [1, 2, 3], [1])
    assert FakeRunner(MODEL).launch(batch((request, 0, 2))).collect()[0].tokens == ()


def test_end_tokens_are_masked_until_min_tokens():
    params = {"min_tokens": 8, "stop_token_ids": (1,)}
    for seed in range(50):
        request = running(0, [3], seed=seed, max_tokens=8, params=params)
        (outcome,) = FakeRunner(FakeModel(vocab_size=3, eos_token_ids=(0,))).launch(batch((request, 0, 1))).collect()
        assert outcome.tokens == (2,)


def test_banned_tokens_are_not_drawn_until_the_output_has_so_many():
    params = {"banned_tokens": (0, 1), "banned_until": 1}
    runner = FakeRunner(FakeModel(vocab_size=3, eos_token_ids=(0,)))
    for seed in range(50):
        (outcome,) = runner.launch(batch((running(0, [3], seed=seed, params=params), 0, 1))).collect()
        assert outcome.tokens == (2,)


def test_logprobs_come_as_many_as_were_asked_for():
    request = running(0, [4, 5, 6], params={"logprobs": 3, "prompt_logprobs": 1})
    runner = FakeRunner(MODEL)
    first, last = (runner.launch(batch(span)).collect()[0] for span in ((request, 0, 2), (request, 2, 1)))
    assert [entry.token for entry in first.prompt_logprobs] == [5, 6]
    assert last.prompt_logprobs == ()
    assert len(last.logprobs[0].top) == 3
    assert last.logprobs[0].token == last.tokens[0]


def test_a_step_takes_as_long_as_it_was_told_to():
    clock = FakeClock()
    request = running(0, [1])
    pending = FakeRunner(FakeModel(step_s=0.5), sleep=clock.advance).launch(batch((request, 0, 1)))
    assert clock.now_s() == 0
    pending.collect()
    assert clock.now_s() == 0.5


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(running(0, [1, 2], [0]), 0, 2)], "write to the null block"),
        ([(running(0, [1, 2], [1]), 0, 2), (running(1, [1, 2], [1]), 0, 2)], "two writes to one slot"),
        ([(running(0, [1, 2], [1]), 1, 1)], "read of foreign KV"),
        ([(running(0, [1] * 5, [0, 1]), 4, 1)], "read of the null block"),
    ],
)
def test_memory_sees_a_wrong_block_table(spans, message):
    memory = FingerprintMemory((FULL,), 4)
    with pytest.raises(AssertionError, match=message):
        memory.run(batch(*spans))


@pytest.mark.parametrize(("prompt", "salt"), [([2, 1, 3], ""), ([1, 1, 3], "b")])
def test_memory_sees_a_hit_on_another_prefix(prompt, salt):
    memory = FingerprintMemory((FULL,), 4)
    memory.run(batch((running(0, [1, 1, 3], [1]), 0, 2)))
    memory.run(batch((running(1, [1, 1, 3], [1]), 2, 1)))
    with pytest.raises(AssertionError, match="foreign"):
        memory.run(batch((running(2, prompt, [1], salt=salt), 2, 1)))


def test_memory_reads_no_further_back_than_the_window():
    memory = FingerprintMemory((WINDOW,), 4)
    request = running(0, [1] * 20, [1, 2, 3, 4, 5])
    memory.run(batch((request, 0, 16)))
    request.block_tables[0][0] = 0
    memory.run(batch((request, 16, 1)))  # reads from 7 on
    request.block_tables[0][1] = 0
    with pytest.raises(AssertionError, match="null"):
        memory.run(batch((request, 16, 1)))


def test_a_fake_engine_is_built_from_its_configuration():
    config = EngineConfig(model="fake", max_requests=4, max_context=64, kv_memory_bytes=160, fake=FakeModel())
    engine, spec = build_fake_engine(config, FakeClock())
    assert (spec.kv_blocks, spec.max_context, spec.vocab_size) == (9, 64, 49152)
    engine.submit(submit(0, [1, 2, 3], max_tokens=2, policy_version="fake"))
    steps = [engine.step(), engine.step()]
    assert [len(report.events[0].tokens) for report in steps] == [1, 1]
    assert not engine.has_work
