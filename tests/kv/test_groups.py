import pytest

from dayzero.kv.groups import CacheGroup, CacheKind


def test_a_windowed_token_reads_itself_and_the_window_behind_it() -> None:
    group = CacheGroup(kind=CacheKind.WINDOW, layers=(0,), bytes_per_token=1, window=4)
    assert [group.first_needed(position) for position in (0, 3, 4, 10)] == [0, 0, 1, 7]


def test_a_full_group_reads_everything() -> None:
    assert CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1).first_needed(1000) == 0


def test_a_window_and_a_kind_belong_together() -> None:
    with pytest.raises(AssertionError):
        CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=1, window=4)
