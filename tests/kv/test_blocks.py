import pytest

from dayzero.kv.blocks import NULL_BLOCK, BlockPool


def test_allocation_is_all_or_nothing():
    pool = BlockPool(5)
    assert pool.num_blocks == 4
    assert pool.allocate(5) is None
    assert pool.num_free == 4
    assert pool.allocate(4) is not None
    assert pool.num_free == 0
    assert pool.allocate(0) == []
    pool.check()


def test_the_null_block_is_never_allocated():
    pool = BlockPool(9)
    assert NULL_BLOCK not in (pool.allocate(8) or [])


def test_a_block_is_free_when_its_last_holder_releases_it():
    pool = BlockPool(2)
    (block,) = pool.allocate(1) or []
    assert pool.retain(block) == 2
    assert pool.release(block) == 1
    assert pool.num_free == 0
    assert pool.release(block) == 0
    assert pool.num_free == 1
    pool.check()


@pytest.mark.parametrize("use", [BlockPool.retain, BlockPool.release])
def test_a_free_block_cannot_be_retained_or_released(use):
    with pytest.raises(AssertionError, match="free block"):
        use(BlockPool(2), 1)


def test_a_pool_of_only_the_null_block_has_nothing_to_give():
    assert BlockPool(1).allocate(1) is None


def test_check_sees_a_block_that_was_lost():
    pool = BlockPool(3)
    pool.allocate(1)
    pool.check()
    pool._free.pop()
    with pytest.raises(AssertionError):
        pool.check()
