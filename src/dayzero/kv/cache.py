"""Block tables for all cache groups of a model: what the scheduler talks to.

A request has one block table per group; entry i holds the KV of its tokens [i * S, (i + 1) * S).

    full     | hit, shared | its own ............ | not yet |
    window   | null null null | what the next token reads ... | not yet |
                            ^ entries that left the window are given back and become the null block

Each group has its own pool and its own idle order: a window block may be given up while the full block of the same
prefix stays. A prefix hit of n tokens therefore needs every full block before n, and of a window group only the
blocks that token n reads.

Knows no request, no tokens and no tensors.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from dayzero.core.prefix import BlockKey
from dayzero.errors import ConfigError
from dayzero.kv.blocks import NULL_BLOCK, BlockId, BlockPool
from dayzero.kv.groups import CacheGroup, CacheKind
from dayzero.kv.radix import PrefixCache

BlockTable = list[BlockId]


@dataclass(frozen=True, slots=True)
class Usage:
    """Blocks of the first group. Known blocks that no request holds do not count as used."""

    used_blocks: int
    total_blocks: int


class KVCache:
    """The KV memory of one endpoint, in blocks: a part of each group's store that is no other cache's.

    An encoder has no groups, and is never short of blocks.

    capacity_tokens    the longest request that fits alone
    max_span_tokens    the longest span that a request can always be given when it is alone: a span holds the window
                       behind its first token and the blocks of all its own tokens
    """

    def __init__(
        self,
        groups: Sequence[CacheGroup],
        num_blocks: Sequence[int],
        *,
        block_size: int,
        prefix_cache: bool,
        freed: Callable[[int, BlockId], None] | None = None,
        firsts: Sequence[BlockId] | None = None,
    ) -> None:
        """
        num_blocks   of each group, the null block included
        firsts       the first block of each group; None: no other cache has a part of the store
        freed        told of each block that nobody holds or knows any more, with the index of its group
        """
        assert groups or not prefix_cache, "a model that keeps nothing has no prefixes"
        assert len(groups) == len(num_blocks), (len(groups), len(num_blocks))
        self.groups = tuple(groups)
        self.block_size = block_size
        self.has_prefix_cache = prefix_cache
        self._caches = tuple(
            PrefixCache(BlockPool(count, partial(freed, index) if freed else None, first=first))
            for index, (count, first) in enumerate(
                zip(num_blocks, firsts or [NULL_BLOCK + 1] * len(groups), strict=True)
            )
        )
        self._pairs = tuple(zip(self.groups, self._caches, strict=True))
        self._full = [cache for group, cache in self._pairs if group.kind is CacheKind.FULL]
        self._windows = [(group, cache) for group, cache in self._pairs if group.kind is CacheKind.WINDOW]
        bounds = [_bounds(group, cache.num_blocks, block_size) for group, cache in self._pairs]
        self.capacity_tokens = min((capacity for capacity, _ in bounds), default=sys.maxsize)
        self.max_span_tokens = min((span for _, span in bounds), default=sys.maxsize)
        if self.capacity_tokens < 1:
            raise ConfigError(
                f"KV blocks: {min(num_blocks)}, of which one is the null block",
                hint="give the KV pool more memory",
            )

    @property
    def usage(self) -> Usage:
        if not self._caches:
            return Usage(0, 0)
        first = self._caches[0]
        return Usage(first.num_blocks - first.num_available, first.num_blocks)

    def match(self, keys: Sequence[BlockKey]) -> int:
        """The longest prefix hit in blocks, given the keys of the request's leading full blocks. Reads only."""
        hit = len(keys)
        for cache in self._full:
            hit = cache.match(keys[:hit])
        missing = self._last_missing(keys, hit)
        while missing is not None:
            hit = missing  # a shorter hit still needs that block, unless it ends before it
            missing = self._last_missing(keys, hit)
        return hit

    def admit(self, keys: Sequence[BlockKey], num_tokens: int, *, spare: int) -> list[BlockTable] | None:
        """Tables for a request of `num_tokens` that hits `keys`, a result of `match`; None and no change if short.

        Full groups get all blocks for `num_tokens` at once: a prompt that is being computed is never short of them.
        spare   blocks of each group that must stay available
        """
        need = _num_blocks(num_tokens, self.block_size) - len(keys)
        wanted = []  # per group: the keys to hold, the blocks to take
        for group, cache in self._pairs:
            is_full = group.kind is CacheKind.FULL
            held = keys[self._first_block(group, len(keys)) :]
            count = need if is_full else 0
            if count + cache.num_idle(held) + spare > cache.num_available:
                return None
            wanted.append((cache, held, count))
        return [
            [NULL_BLOCK] * (len(keys) - len(held)) + cache.acquire(held) + _taken(cache, count)
            for cache, held, count in wanted
        ]

    def extend(self, tables: Sequence[BlockTable], start: int, stop: int) -> bool:
        """Make room for the tokens [start, stop), of which those before `start` are computed.

        Gives back what left the window of `start`. All or nothing over all groups: False means not now.
        """
        need = _num_blocks(stop, self.block_size)
        for table in tables:
            if len(table) < need:
                break
        else:
            return True
        for group, cache, table in zip(self.groups, self._caches, tables, strict=True):
            if group.kind is CacheKind.WINDOW:
                _leave(cache, table, group.first_needed(start) // self.block_size)
        shortages = [max(0, need - len(table)) for table in tables]
        if any(short > cache.num_available for short, cache in zip(shortages, self._caches, strict=True)):
            return False
        for short, cache, table in zip(shortages, self._caches, tables, strict=True):
            table.extend(_taken(cache, short))
        return True

    def publish(self, keys: Sequence[BlockKey], tables: Sequence[BlockTable], first: int, stop: int) -> None:
        """Make the blocks [first, stop) known, which are computed in full.

        Where another request published the same prefix before, its block takes our copy's place in the table.
        """
        for cache, table in zip(self._caches, tables, strict=True):
            for index in range(first, stop):
                if table[index] != NULL_BLOCK:
                    table[index] = cache.insert(keys[index], table[index])

    def release(self, tables: Sequence[BlockTable]) -> None:
        """Give back all blocks of a request. Known ones stay known until a block is needed."""
        for cache, table in zip(self._caches, tables, strict=True):
            cache.release(table)

    def forget(self, keys: Sequence[BlockKey]) -> None:
        """Make unknown those of these prefixes whose blocks no request holds."""
        for cache in self._caches:
            cache.forget(keys)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for cache in self._caches:
            cache.check()

    def _first_block(self, group: CacheGroup, hit: int) -> int:
        """The first block that the token behind a hit of `hit` blocks reads."""
        return group.first_needed(hit * self.block_size) // self.block_size

    def _last_missing(self, keys: Sequence[BlockKey], hit: int) -> int | None:
        """The last block that a hit of `hit` blocks needs in some window group and that is not known there."""
        last = None
        for group, cache in self._windows:
            for index in range(hit - 1, self._first_block(group, hit) - 1, -1):
                if keys[index] not in cache:
                    last = index if last is None else max(last, index)
                    break
        return last


def _num_blocks(num_tokens: int, block_size: int) -> int:
    return -(-num_tokens // block_size)


def _taken(cache: PrefixCache, count: int) -> list[BlockId]:
    blocks = cache.take(count)
    assert blocks is not None, (count, cache.num_available)
    return blocks


def _leave(cache: PrefixCache, table: BlockTable, first: int) -> None:
    """Give back the entries before `first`. Null entries are always leading ones, so the search stops at the first."""
    start = first
    while start > 0 and table[start - 1] != NULL_BLOCK:
        start -= 1
    if start < first:
        cache.release(table[start:first])
        table[start:first] = [NULL_BLOCK] * (first - start)


def _bounds(group: CacheGroup, num_blocks: int, block_size: int) -> tuple[int, int]:
    """The longest request and the longest span of it that `num_blocks` hold when nobody else holds any.

    A window and a span cover n = window - 1 + span tokens, which touch at most 1 + ceil((n - 1) / S) blocks.
    """
    if group.window is not None:
        span = (num_blocks - 1) * block_size + 2 - group.window
        if span >= 1:
            return sys.maxsize, span
    return num_blocks * block_size, sys.maxsize
