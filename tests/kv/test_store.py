import torch

from dayzero.kernels.attention import HeadLayout
from dayzero.kv.groups import CacheGroup, CacheKind
from dayzero.kv.store import KVStore


def test_each_layer_has_the_pool_of_its_group() -> None:
    groups = (
        CacheGroup(kind=CacheKind.FULL, layers=(1,), bytes_per_token=64),
        CacheGroup(kind=CacheKind.WINDOW, layers=(0, 2), bytes_per_token=128, window=8),
    )
    store = KVStore(groups, (10, 4), 16, HeadLayout(num_heads=6, num_kv_heads=2, head_dim=8), torch.bfloat16)
    assert store.layer(1).shape == (10, 16, 2, 2, 8)
    assert store.layer(0).shape == store.layer(2).shape == (4, 16, 2, 2, 8)
    assert not store.layer(0).any()


def test_a_pool_of_int8_has_room_for_a_scale_behind_the_codes_of_a_head() -> None:
    group = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=48)
    store = KVStore((group,), (10,), 16, HeadLayout(num_heads=6, num_kv_heads=2, head_dim=8), torch.int8)
    assert store.layer(0).shape == (10, 16, 2, 2, 8 + 4)
    assert store.layer(0).nbytes == 10 * 16 * group.bytes_per_token


def test_a_pool_costs_no_memory_before_it_is_written() -> None:
    group = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=4096)
    before = resident_bytes()
    store = KVStore((group,), (2**16,), 16, HeadLayout(num_heads=8, num_kv_heads=8, head_dim=128), torch.bfloat16)
    assert store.layer(0).nbytes == 2**32
    assert resident_bytes() - before < 2**26


def test_a_committed_pool_is_there_before_it_is_written() -> None:
    group = CacheGroup(kind=CacheKind.FULL, layers=(0,), bytes_per_token=4096)
    heads = HeadLayout(num_heads=8, num_kv_heads=8, head_dim=128)
    before = resident_bytes()
    store = KVStore((group,), (2**10,), 16, heads, torch.bfloat16, committed=True)
    assert resident_bytes() - before >= store.layer(0).nbytes
    assert not store.layer(0).any()


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096
