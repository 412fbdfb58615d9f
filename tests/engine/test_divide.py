import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.core.spec import EndpointConfig, EngineConfig
from dayzero.engine.divide import divide
from dayzero.engine.machine import Machine
from dayzero.engine.resolve import KV_SHARE, free_beside, memory
from dayzero.errors import ConfigError
from dayzero.kv.groups import CacheGroup, CacheKind

GIB = 2**30
FULL = CacheGroup(kind=CacheKind.FULL, layers=(0, 1), bytes_per_token=1024)
WINDOW = CacheGroup(kind=CacheKind.WINDOW, layers=(2,), bytes_per_token=512, window=512)


def endpoint(name, **asked):
    return EndpointConfig(names=(name,), **asked)


SHORT, LONG = endpoint("short", max_context=1024), endpoint("long", max_context=8192)


def division(*endpoints, groups=(FULL,), free_bytes=4 * GIB, **config):
    return divide(
        EngineConfig(model="m", endpoints=endpoints, **config),
        groups,
        model_context=8192,
        weight_bytes=0,
        machine=Machine(2, free_bytes),
    )


def test_a_server_without_endpoints_is_as_it_was():
    config = EngineConfig(model="m", max_requests=3)
    sizes = {"model_context": 8192, "weight_bytes": 0, "machine": Machine(2, GIB)}
    found = divide(config, (FULL, WINDOW), **sizes)
    assert found.memory == memory(config, (FULL, WINDOW), **sizes)
    assert found.memories == (found.memory,)
    assert found.specs == ()
    assert found.firsts == [(1, 1)]


def test_what_nobody_asks_for_is_divided_by_what_it_is_for():
    found = division(SHORT, LONG, kv_memory_bytes=90 * 2**20)
    short, long = found.specs
    assert (short.max_requests, long.max_requests) == (32, 32)
    assert (short.max_step_tokens, long.max_step_tokens) == (202, 53)  # long prompts leave steps short
    assert (short.max_context, long.max_context) == (1024, 8192)
    assert long.kv_bytes == pytest.approx(8 * short.kv_bytes, rel=0.02)  # as many whole requests in each
    assert found.memory.max_context == 8192


def test_an_endpoint_gets_what_it_asks_for():
    asked = endpoint("short", max_context=1024, max_requests=8, max_step_tokens=64, kv_memory_bytes=4 * 2**20)
    short, long = division(asked, LONG).specs
    assert (short.max_requests, short.max_step_tokens, short.kv_blocks) == (8, 64, 255)  # one block is nobody's
    assert (long.max_requests, long.max_step_tokens) == (56, 192)


def test_an_endpoint_without_a_context_has_the_servers_or_what_its_memory_holds():
    assert [spec.max_context for spec in division(endpoint("a"), SHORT, max_context=4096).specs] == [4096, 1024]
    small = endpoint("a", kv_memory_bytes=2**20)
    assert [spec.max_context for spec in division(small, SHORT).specs] == [1008, 1024]


def test_each_that_says_may_have_all_that_is_free():
    parts = [endpoint(name, max_context=1024, kv_memory_bytes=int(0.7 * GIB)) for name in "ab"]
    free = {"free_bytes": int(2 * GIB)}
    assert len(division(*parts, **free).specs) == 2
    with pytest.raises(ConfigError, match="bytes of KV memory together"):
        division(*parts, SHORT, **free)


@pytest.mark.parametrize(
    ("endpoints", "config", "message"),
    [
        ([endpoint("a", max_context=9000)], {}, r"endpoint a: max_context too large: 9000 \(the server's: 8192\)"),
        ([SHORT, LONG], {"max_context": 4096}, r"endpoint long: max_context too large: 8192 \(the server's: 4096\)"),
        ([endpoint("a", max_requests=60), endpoint("b", max_requests=5)], {}, "65 requests at once together"),
        ([endpoint("a", max_step_tokens=250), endpoint("b", max_step_tokens=7)], {}, "257 tokens of a step together"),
        ([endpoint("a", max_step_tokens=240), SHORT], {}, "ask for 240 of 256 tokens of a step, and those .* need 32"),
        ([endpoint("a", max_step_tokens=31), SHORT], {}, "endpoint a: 31 tokens of a step for 32 requests"),
        (
            [endpoint("a", kv_memory_bytes=2**20), endpoint("b", kv_memory_bytes=2**20)],
            {"kv_memory_bytes": 2**20},
            r"2097152 bytes of KV memory together \(the server has 1048576\)",
        ),
        (
            [SHORT, LONG],
            {"kv_memory_bytes": 2**20},
            r"endpoint short: KV memory too small: it holds 96 tokens \(max_context asks for 1024\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_numbers(endpoints, config, message):
    with pytest.raises(ConfigError, match=message):
        division(*endpoints, **config)


asked_counts = st.none() | st.integers(1, 16)


@given(
    st.lists(st.tuples(asked_counts, asked_counts, st.sampled_from([None, 64, 1024, 8192])), min_size=1, max_size=4),
    st.integers(2**20, 2**27),
)
def test_endpoints_share_no_block_and_no_more_than_there_is(asked, kv_bytes):
    endpoints = [
        endpoint(str(i), max_requests=n, max_step_tokens=n and 4 * n + (m or 0), max_context=context)
        for i, (n, m, context) in enumerate(asked)
    ]
    try:
        found = division(*endpoints, groups=(FULL, WINDOW), kv_memory_bytes=kv_bytes)
    except ConfigError:
        return
    assert sum(found.max_requests) <= 64
    assert sum(found.max_step_tokens) <= 256
    for group, total in enumerate(found.memory.num_blocks):
        held = []
        for firsts, part in zip(found.firsts, found.memories, strict=True):
            held += range(firsts[group], firsts[group] + part.num_blocks[group] - 1)
        assert held == list(range(1, total))
    null_blocks = len(endpoints) * 16 * (1024 + 512)
    assert found.memory.kv_bytes <= kv_bytes + null_blocks


def test_what_is_divided_is_what_one_endpoint_would_have():
    found = division(LONG, endpoint("other", max_context=8192), free_bytes=GIB)
    budget = int(free_beside(0, Machine(2, GIB)) * KV_SHARE)
    assert 0.99 * budget < found.memory.kv_bytes <= budget


def test_endpoints_of_an_encoder_hold_their_texts_in_their_part_of_a_step():
    short, long = division(endpoint("short", max_context=128), LONG, groups=(), max_step_tokens=8192 + 128).specs
    assert (short.kv_blocks, short.max_step_tokens) == (0, 128)
    assert (long.kv_blocks, long.max_step_tokens) == (0, 8192)
    with pytest.raises(ConfigError, match=r"endpoint long: 8191 tokens of a step for texts of 8192"):
        division(SHORT, endpoint("long", max_step_tokens=8191), groups=(), max_step_tokens=2 * 8192)
