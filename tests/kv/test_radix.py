from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dayzero.core.prefix import block_keys
from dayzero.kv.blocks import BlockPool
from dayzero.kv.radix import PrefixCache

NUM_BLOCKS = 8


def keys(tokens, size=1):
    return block_keys(tokens, size, salt="", version="")


def held(cache, tokens):
    """Blocks of a request that computed `tokens` without looking for a hit."""
    blocks = cache.take(len(tokens))
    return [cache.insert(key, block) for key, block in zip(keys(tokens), blocks, strict=True)]


def test_a_released_prefix_stays_known_and_counts_as_available():
    cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
    cache.release(held(cache, [1, 2, 3]))
    assert cache.match(keys([1, 2, 3])) == 3
    assert cache.match(keys([1, 2, 4])) == 2
    assert cache.match(keys([2])) == 0
    assert cache.num_available == NUM_BLOCKS


def test_leaves_are_given_up_before_their_roots():
    cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
    cache.release(held(cache, [1, 2, 3, 4]))
    cache.take(NUM_BLOCKS - 2)
    assert cache.match(keys([1, 2, 3, 4])) == 2


def test_the_prefix_used_last_is_given_up_last():
    cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
    cache.release(held(cache, [1, 2]))
    cache.release(held(cache, [3, 4]))
    cache.release(cache.acquire(keys([1, 2])))
    cache.take(NUM_BLOCKS - 2)
    assert cache.match(keys([1, 2])) == 2
    assert cache.match(keys([3, 4])) == 0


def test_blocks_in_use_are_never_given_up():
    cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
    held(cache, [1, 2])
    assert cache.take(NUM_BLOCKS - 1) is None
    assert cache.take(NUM_BLOCKS - 2) is not None
    assert cache.match(keys([1, 2])) == 2
    cache.check()


def test_a_second_copy_of_a_prefix_is_given_back_at_once():
    cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
    first, second = held(cache, [1, 2]), held(cache, [1, 2])
    assert first == second
    assert cache.num_available == NUM_BLOCKS - 2
    cache.release(first)
    assert cache.num_available == NUM_BLOCKS - 2
    cache.release(second)
    assert cache.num_available == NUM_BLOCKS
    cache.check()


def test_what_is_forgotten_is_free_unless_a_request_holds_it():
    cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
    cache.release(held(cache, [1, 2, 3, 4]))
    again = cache.acquire(keys([1, 2, 3])[:3])
    cache.forget(keys([1, 2, 3, 4, 5])[2:])
    assert cache.match(keys([1, 2, 3, 4])) == 3
    cache.release(again)
    cache.forget(keys([1, 2, 3, 4])[1:])
    assert cache.match(keys([1, 2, 3, 4])) == 1
    assert cache.num_available == NUM_BLOCKS
    cache.check()


class CacheMachine(RuleBasedStateMachine):
    """Requests that hit, compute, publish and release agree with a brute-force model that knows the tokens.

    The model: a request is its tokens and blocks; known prefixes are a set of token tuples, which loses members only
    when blocks run out, and then leaves only.
    """

    @initialize()
    def start(self):
        self.cache = PrefixCache(BlockPool(NUM_BLOCKS + 1))
        self.requests = []
        self.known = {}

    @rule(tokens=st.lists(st.integers(0, 2), max_size=NUM_BLOCKS))
    def admit(self, tokens):
        hit = self.cache.match(keys(tokens))
        assert hit == next((n for n in range(len(tokens)) if tuple(tokens[: n + 1]) not in self.known), len(tokens))
        hit_keys = keys(tokens)[:hit]
        missing = len(tokens) - hit
        fits = missing + self.cache.num_idle(hit_keys) <= self.cache.num_available
        blocks = self.cache.acquire(hit_keys)
        assert blocks == [self.known[tuple(tokens[: n + 1])] for n in range(hit)]
        taken = self.cache.take(missing)
        assert (taken is not None) == fits
        if taken is None:
            self.cache.release(blocks)
            return
        self.requests.append((tokens, blocks + taken))
        self.forget_what_was_given_up()

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def publish(self, data):
        tokens, blocks = data.draw(st.sampled_from(self.requests))
        for n, key in enumerate(keys(tokens)):
            blocks[n] = self.cache.insert(key, blocks[n])
            assert self.known.setdefault(tuple(tokens[: n + 1]), blocks[n]) == blocks[n]

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def release(self, data):
        index = data.draw(st.integers(0, len(self.requests) - 1))
        self.cache.release(self.requests.pop(index)[1])

    def forget_what_was_given_up(self):
        for tokens in list(self.known):
            if keys(tokens)[-1] not in self.cache:
                del self.known[tokens]

    @invariant()
    def consistent(self):
        self.cache.check()
        in_use = {block for _, blocks in self.requests for block in blocks}
        assert self.cache.num_available == NUM_BLOCKS - len(in_use)
        assert len(self.cache) == len(self.known)
        for tokens in self.known:
            assert len(tokens) == 1 or tokens[:-1] in self.known, ("a root was given up before its leaf", tokens)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(derandomize=True, max_examples=100, stateful_step_count=40, deadline=None)
