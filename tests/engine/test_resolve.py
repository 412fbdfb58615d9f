import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.core.spec import EndpointConfig, EngineConfig
from dayzero.engine.machine import Machine
from dayzero.engine.resolve import OVERHEAD_BYTES, for_encoder, memory
from dayzero.errors import ConfigError
from dayzero.kv.groups import CacheGroup, CacheKind

FULL = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1000)
WINDOW = CacheGroup(kind=CacheKind.WINDOW, layers=(1,), bytes_per_token=5000, window=512)
WEIGHTS = 10**8
GIB = 2**30


def config(**values: object) -> EngineConfig:
    return EngineConfig(**{"model": "m", **values})  # type: ignore[arg-type]


@given(
    st.integers(1, 64),
    st.integers(64, 100_000),
    st.integers(OVERHEAD_BYTES + WEIGHTS + 10**6, 2**36),
    st.sampled_from([(FULL,), (FULL, WINDOW)]),
)
def test_the_pool_stays_within_its_share_and_holds_the_served_context(
    requests: int, context: int, free: int, groups: tuple[CacheGroup, ...]
) -> None:
    asked = config(max_requests=requests)
    found = memory(asked, groups, model_context=context, weight_bytes=WEIGHTS, machine=Machine(2, free))
    assert found.kv_bytes <= (free - WEIGHTS - OVERHEAD_BYTES) / 2
    assert 0 < found.max_context <= context
    assert (found.num_blocks[0] - 1) * asked.block_size >= found.max_context
    assert found.num_blocks[0] - 1 <= requests * -(-context // asked.block_size)


def test_a_window_takes_no_more_blocks_than_its_requests_can_use() -> None:
    asked = config(max_requests=2, max_step_tokens=128)
    found = memory(asked, (FULL, WINDOW), model_context=32768, weight_bytes=0, machine=Machine(2, 64 * GIB))
    assert found.num_blocks[1] == 2 * ((512 + 128) // 16 + 2) + 1


def test_a_context_beyond_the_models_is_refused_with_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"9000.*8192"):
        memory(config(max_context=9000), (FULL,), model_context=8192, weight_bytes=0, machine=Machine(2, GIB))


def test_kv_memory_that_cannot_hold_the_asked_context_is_refused_with_both_numbers() -> None:
    asked = config(max_context=8192, kv_memory_bytes=1_000_000)
    with pytest.raises(ConfigError, match=r"holds 976 tokens.*8192"):
        memory(asked, (FULL,), model_context=8192, weight_bytes=0, machine=Machine(2, GIB))


def test_kv_memory_that_holds_next_to_nothing_is_told_as_such() -> None:
    with pytest.raises(ConfigError, match=r"KV memory too small: 19 KiB holds 0 tokens"):
        memory(config(kv_memory_bytes=20_000), (FULL,), model_context=8192, weight_bytes=0, machine=Machine(2, GIB))


def test_too_little_memory_says_how_much_is_there() -> None:
    with pytest.raises(ConfigError, match="not enough memory"):
        memory(config(), (FULL,), model_context=8192, weight_bytes=WEIGHTS, machine=Machine(2, WEIGHTS))


def test_an_encoder_keeps_nothing_and_its_step_holds_its_context() -> None:
    asked = for_encoder(config(), 512)
    assert (asked.max_step_tokens, asked.prefix_cache) == (512, False)
    found = memory(asked, (), model_context=512, weight_bytes=0, machine=Machine(2, GIB))
    assert (found.max_context, found.kv_blocks, found.kv_bytes) == (512, 0, 0)


def test_an_encoder_has_the_step_and_the_context_that_are_asked_for() -> None:
    assert for_encoder(config(max_step_tokens=2048), 512).max_step_tokens == 2048
    asked = for_encoder(config(max_context=300), 512)
    assert asked.max_step_tokens == 300
    assert memory(asked, (), model_context=512, weight_bytes=0, machine=Machine(2, GIB)).max_context == 300


def test_the_step_of_an_encoder_holds_a_text_of_each_endpoint() -> None:
    endpoints = EndpointConfig(names=("short",), max_context=100), EndpointConfig(names=("long",))
    assert for_encoder(config(endpoints=endpoints), 512).max_step_tokens == 612


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ({"kv_memory_bytes": 10}, "--kv-memory"),
        ({"kv_dtype": "int8"}, "--kv-dtype"),
        ({"endpoints": (EndpointConfig(names=("a",)), EndpointConfig(names=("b",), kv_memory_bytes=1))}, "kv_memory"),
    ],
)
def test_what_an_encoder_has_no_use_of_is_refused(values: dict[str, object], flag: str) -> None:
    with pytest.raises(ConfigError, match=flag):
        for_encoder(config(**values), 512)
