"""Which prefixes have their KV in a pool, and which to give up first.

A radix tree with one node per full block, stored flat: the key of a block commits to its whole prefix (`core.prefix`),
so the node of a prefix is one dictionary entry and the edges need no storage. Nothing ever splits.

Leaves go first although no edge says which they are: whoever holds a block got it together with all blocks before
it and gives the deepest back first, so within a prefix the idle order runs from leaf to root.

Knows one cache group and no tokens. Source of the flat form: vLLM's block hashes (v1/core/block_pool.py).
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from dayzero.core.prefix import BlockKey
from dayzero.kv.blocks import NULL_BLOCK, BlockId, BlockPool


class PrefixCache:
    """The blocks of one pool, some of them known by the prefix they end.

        free         nobody holds it
        idle         known, and held by the cache alone: counts as available, and is given up when a block is needed
        in use       held by requests, known or not

    Invariant: the cache holds each known block once; a known block is idle exactly if its count is 1.
    """

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._blocks: dict[BlockKey, BlockId] = {}
        self._keys: dict[BlockId, BlockKey] = {}
        self._idle: OrderedDict[BlockId, None] = OrderedDict()  # the next to give up comes first

    @property
    def num_blocks(self) -> int:
        return self._pool.num_blocks

    @property
    def num_available(self) -> int:
        """How many blocks `take` could give."""
        return self._pool.num_free + len(self._idle)

    def __len__(self) -> int:
        """How many blocks are known."""
        return len(self._blocks)

    def __contains__(self, key: BlockKey) -> bool:
        return key in self._blocks

    def match(self, keys: Sequence[BlockKey]) -> int:
        """How many leading `keys` are known. Reads only."""
        blocks = self._blocks
        for number, key in enumerate(keys):
            if key not in blocks:
                return number
        return len(keys)

    def num_idle(self, keys: Iterable[BlockKey]) -> int:
        """How many blocks of these known `keys` would stop being available if they were acquired. Reads only."""
        idle, blocks = self._idle, self._blocks
        return sum(blocks[key] in idle for key in keys)

    def acquire(self, keys: Iterable[BlockKey]) -> list[BlockId]:
        """Hold the blocks of these known `keys`."""
        held = []
        for key in keys:
            block = self._blocks[key]
            if self._pool.retain(block) == 2:  # the cache and us
                del self._idle[block]
            held.append(block)
        return held

    def take(self, count: int) -> list[BlockId] | None:
        """`count` blocks of unknown content, giving up idle ones if need be; None and no change if there are fewer."""
        if count > self.num_available:
            return None
        while self._pool.num_free < count:
            block, _ = self._idle.popitem(last=False)
            del self._blocks[self._keys.pop(block)]
            self._pool.release(block)
        return self._pool.allocate(count)

    def insert(self, key: BlockKey, block: BlockId) -> BlockId:
        """Make known that `block`, which the caller holds, ends the prefix `key`; returns the block to hold instead.

        That is another one if the prefix was known already: two requests computed it at the same time. The caller's
        copy is given back, so that every holder of a prefix holds the same blocks and leaves keep going first.
        """
        known = self._blocks.get(key)
        if known is None:
            assert block not in self._keys, ("a block ends two prefixes", block)
            self._blocks[key] = block
            self._keys[block] = key
            self._pool.retain(block)
            return block
        if known != block:
            self.acquire((key,))
            self.release((block,))
        return known

    def release(self, blocks: Sequence[BlockId]) -> None:
        """Give back blocks in the order of a block table; null entries are skipped."""
        for block in reversed(blocks):
            if block == NULL_BLOCK:
                continue
            if self._pool.release(block) == 1 and block in self._keys:
                self._idle[block] = None

    def forget(self, keys: Iterable[BlockKey]) -> None:
        """Make unknown those of these prefixes whose block no request holds."""
        for key in keys:
            block = self._blocks.get(key)
            if block is not None and block in self._idle:
                del self._blocks[key], self._keys[block], self._idle[block]
                self._pool.release(block)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self._pool.check()
        assert self._blocks == {key: block for block, key in self._keys.items()}, (self._blocks, self._keys)
        for block in self._keys:
            assert self._pool.count(block) >= 1, ("a known block is free", block)
            assert (self._pool.count(block) == 1) == (block in self._idle), (block, self._pool.count(block))
        assert self._idle.keys() <= self._keys.keys(), "an idle block is not known"
