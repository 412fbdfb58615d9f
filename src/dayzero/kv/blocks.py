"""Reference counts for a fixed set of KV blocks.

Knows nothing of tokens, prefixes or tensors: a block is a number, and is free when nobody holds it.
"""

from collections.abc import Callable

BlockId = int
NULL_BLOCK: BlockId = 0  # never allocated: padding and table entries that left a window point to it


class BlockPool:
    """Blocks first .. first + num_blocks - 2 and how many holders each has.

    Invariant: a block is on the free list exactly if its count is 0; the null block is on neither side.
    """

    def __init__(
        self, num_blocks: int, freed: Callable[[BlockId], None] | None = None, *, first: BlockId = NULL_BLOCK + 1
    ) -> None:
        """
        num_blocks   the null block included
        freed        told of each block that becomes free
        first        those before it are another pool's
        """
        assert num_blocks >= 1, num_blocks
        assert first > NULL_BLOCK, first
        self._freed = freed
        self._first = first
        self._counts = [0] * (first + num_blocks - 1)
        self._free = list(range(first + num_blocks - 2, first - 1, -1))

    @property
    def num_blocks(self) -> int:
        """How many can be held at once: the null block does not count."""
        return len(self._counts) - self._first

    @property
    def num_free(self) -> int:
        return len(self._free)

    def count(self, block: BlockId) -> int:
        """How many hold the block."""
        return self._counts[block]

    def allocate(self, count: int) -> list[BlockId] | None:
        """`count` blocks with one holder each, or None and no change if there are fewer."""
        free = self._free
        if count > len(free):
            return None
        taken = [free.pop() for _ in range(count)]
        for block in taken:
            self._counts[block] = 1
        return taken

    def retain(self, block: BlockId) -> int:
        """Add a holder to a held block; returns how many hold it now."""
        counts = self._counts
        assert counts[block] > 0, ("retain of a free block", block)
        counts[block] += 1
        return counts[block]

    def release(self, block: BlockId) -> int:
        """Drop a holder; returns how many are left. At 0 the block is free."""
        counts = self._counts
        assert counts[block] > 0, ("release of a free block", block)
        counts[block] -= 1
        if not counts[block]:
            self._free.append(block)
            if self._freed is not None:
                self._freed(block)
        return counts[block]

    def check(self) -> None:
        """Raise AssertionError if the invariant is broken."""
        free = set(self._free)
        assert len(free) == len(self._free), "a block is on the free list twice"
        assert not any(self._counts[: self._first]), "the null block, or a block of another pool, is held"
        expected = {block for block, count in enumerate(self._counts) if count == 0 and block >= self._first}
        assert free == expected, (sorted(free), sorted(expected))
        assert min(self._counts) >= 0, self._counts
