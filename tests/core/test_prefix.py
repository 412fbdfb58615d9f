from hypothesis import given
from hypothesis import strategies as st

from dayzero.core.prefix import block_keys, next_key, root_key

tokens = st.lists(st.integers(0, 300_000), max_size=40)


@given(tokens, st.integers(1, 8))
def test_there_is_one_key_for_each_full_block(ids: list[int], block_size: int) -> None:
    assert len(block_keys(ids, block_size, salt="s", version="v")) == len(ids) // block_size


@given(tokens, tokens, st.integers(1, 4))
def test_keys_agree_exactly_as_far_as_whole_blocks_of_the_prefix_agree(
    a: list[int], b: list[int], block_size: int
) -> None:
    keys = [block_keys(ids, block_size, salt="s", version="v") for ids in (a, b)]
    common = 0
    while common < min(len(a), len(b)) and a[common] == b[common]:
        common += 1
    agreeing = [x == y for x, y in zip(*keys, strict=False)]
    assert agreeing == [i < common // block_size for i in range(len(agreeing))]


def test_another_salt_or_version_shares_nothing() -> None:
    ids = list(range(32))
    keys = [
        block_keys(ids, 16, salt=salt, version=version)
        for salt, version in (("a", "v"), ("b", "v"), ("a", "w"), ("av", ""), ("", "av"))
    ]
    assert len({key for some in keys for key in some}) == 10


def test_keys_are_chained() -> None:
    root = root_key(salt="s", version="v")
    first = next_key(root, [1, 2])
    assert block_keys([1, 2, 3, 4], 2, salt="s", version="v") == [first, next_key(first, [3, 4])]


def test_keys_can_be_continued_behind_a_block():
    keys = block_keys(range(20), 4, salt="s", version="v")
    assert keys[:2] + block_keys(range(8, 20), 4, salt="s", version="v", after=keys[1]) == keys
