import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dayzero.core.prefix import block_keys
from dayzero.errors import ConfigError
from dayzero.kv.cache import KVCache
from dayzero.kv.groups import CacheGroup, CacheKind

SIZE = 4
FULL = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1)
WINDOW = CacheGroup(kind=CacheKind.WINDOW, layers=(1,), bytes_per_token=1, window=6)


def keys(tokens):
    return block_keys(tokens, SIZE, salt="", version="")


def cache_of(*num_blocks, groups=(FULL, WINDOW)):
    """`num_blocks` of each group, the null block not counted."""
    return KVCache(groups, [n + 1 for n in num_blocks], block_size=SIZE, prefix_cache=True)


def compute(cache, tokens, hit=0):
    """A request that computes all of `tokens` in one span."""
    tables = cache.admit(keys(tokens)[:hit], len(tokens), spare=0)
    assert tables is not None
    assert cache.extend(tables, hit * SIZE, len(tokens))
    cache.publish(keys(tokens), tables, hit, len(tokens) // SIZE)
    return tables


def test_a_full_group_gets_its_whole_prompt_and_a_window_group_a_span_at_a_time():
    cache = cache_of(10, 10)
    full, window = cache.admit([], 17, spare=0)
    assert (len(full), len(window)) == (5, 0)
    assert cache.extend([full, window], 0, 6)
    assert (len(full), len(window)) == (5, 2)


def test_blocks_that_left_the_window_become_null_and_free():
    cache = cache_of(10, 10)
    tables = cache.admit([], 32, spare=0)
    assert cache.extend(tables, 0, 16)
    assert cache.extend(tables, 16, 20)  # token 16 reads from 11 on: block 2
    assert [block == 0 for block in tables[1]] == [True, True, False, False, False]
    assert 0 not in tables[0]
    cache.release(tables)
    assert cache.usage.used_blocks == 0
    cache.check()


def test_a_hit_takes_only_the_window_blocks_that_the_next_token_reads():
    cache = cache_of(10, 10)
    tokens = list(range(20))
    first = compute(cache, tokens)
    hit = cache.match(keys(tokens)[:4])
    assert hit == 4
    full, window = cache.admit(keys(tokens)[:hit], len(tokens), spare=0)
    assert full[:4] == first[0][:4]
    assert window == [0, 0, *first[1][2:4]]


def test_a_hit_shrinks_to_where_the_window_is_known():
    cache = cache_of(10, 5)
    tokens = list(range(20))
    cache.release(compute(cache, tokens))
    other = cache.admit([], 16, spare=0)
    assert cache.extend(other, 0, 8)  # gives up window blocks 4 and 3 of the first request, deepest first
    assert cache.match(keys(tokens)) == 3
    cache.check()


def test_admission_leaves_the_spare_blocks_alone():
    cache = cache_of(5, 5)
    assert cache.admit([], 16, spare=2) is None
    assert cache.admit([], 16, spare=1) is not None


def test_admission_that_fails_changes_nothing():
    cache = cache_of(5, 5)
    tokens = list(range(12))
    cache.release(compute(cache, tokens))
    assert cache.admit(keys(tokens)[:2], 6 * SIZE, spare=0) is None
    assert cache.match(keys(tokens)) == 3
    assert cache.usage.used_blocks == 0
    cache.check()


def test_extension_is_all_or_nothing_over_the_groups():
    cache = cache_of(10, 3)
    tables = cache.admit([], 4, spare=0)
    assert cache.extend(tables, 0, 4)
    before = [list(table) for table in tables]
    assert not cache.extend(tables, 4, 20)
    assert tables == before
    assert cache.usage.used_blocks == 1


def test_the_copy_of_a_block_that_another_published_first_is_replaced():
    cache = cache_of(10, 10)
    tokens = list(range(8))
    first, second = compute(cache, tokens), compute(cache, tokens)
    assert first == second
    assert cache.usage.used_blocks == 2


def test_a_request_alone_always_gets_the_longest_span():
    cache = cache_of(10, 4)
    assert cache.capacity_tokens == 40
    tables = cache.admit([], 40, spare=0)
    for start in range(0, 40, cache.max_span_tokens):
        assert cache.extend(tables, start, min(40, start + cache.max_span_tokens))


def test_a_window_pool_below_its_window_limits_the_request_instead_of_the_span():
    cache = cache_of(10, 2)
    assert cache.capacity_tokens == 8
    tables = cache.admit([], 8, spare=0)
    assert cache.extend(tables, 0, 8)


def test_a_pool_without_blocks_is_refused():
    with pytest.raises(ConfigError):
        cache_of(0, groups=(FULL,))


def longest_hit(cache, prefix):
    """By trying every length, each block of each group on its own."""
    full, window = cache._caches
    return next(
        n
        for n in range(len(prefix), -1, -1)
        if all(key in full for key in prefix[:n])
        and all(key in window for key in prefix[WINDOW.first_needed(n * SIZE) // SIZE : n])
    )


class KVMachine(RuleBasedStateMachine):
    """Any sequence of admissions, spans and releases keeps all pools consistent and reads only what was computed.

    The model stores in each (group, block, slot) the token prefix that was written there, and asserts before each span
    that every position it reads holds the request's own prefix.
    """

    @initialize(blocks=st.tuples(st.integers(3, 8), st.integers(4, 8)))
    def start(self, blocks):
        self.cache = cache_of(*blocks)
        self.memory = ({}, {})
        self.requests = []

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=32), spare=st.integers(0, 2))
    def admit(self, tokens, spare):
        shareable = keys(tokens)[: (len(tokens) - 1) // SIZE]
        hit = self.cache.match(shareable)
        assert hit == longest_hit(self.cache, shareable)
        tables = self.cache.admit(shareable[:hit], len(tokens), spare=spare)
        if tables is not None:
            self.requests.append({"tokens": tokens, "tables": tables, "computed": hit * SIZE})

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def compute_span(self, data):
        request = data.draw(st.sampled_from(self.requests))
        tokens, tables, start = request["tokens"], request["tables"], request["computed"]
        if start == len(tokens):
            return
        stop = data.draw(st.integers(start + 1, len(tokens)))
        if not self.cache.extend(tables, start, stop):
            return
        for group, memory, table in zip(self.cache.groups, self.memory, tables, strict=True):
            for position in range(start, stop):
                assert table[position // SIZE] != 0
                memory[table[position // SIZE], position % SIZE] = tuple(tokens[: position + 1])
            for position in range(group.first_needed(start), stop):
                assert memory[table[position // SIZE], position % SIZE] == tuple(tokens[: position + 1])
        self.cache.publish(keys(tokens), tables, start // SIZE, stop // SIZE)
        request["computed"] = stop

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def release(self, data):
        index = data.draw(st.integers(0, len(self.requests) - 1))
        self.cache.release(self.requests.pop(index)["tables"])

    @invariant()
    def consistent(self):
        self.cache.check()
        in_use = {block for request in self.requests for block in request["tables"][0]}
        assert self.cache.usage.used_blocks == len(in_use)


TestKVMachine = KVMachine.TestCase
TestKVMachine.settings = settings(derandomize=True, max_examples=100, stateful_step_count=40, deadline=None)
