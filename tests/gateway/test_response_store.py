from dayzero.clock import FakeClock
from dayzero.gateway.response_store import ResponseStore, StoredResponse


def stored(size: int) -> StoredResponse:
    """An entry that counts as `size` bytes."""
    bare = StoredResponse(b"", b"").num_bytes
    return StoredResponse(b"x" * (size - bare), b"")


def store(tenant_bytes: int = 10_000, lifetime_s: float = 60.0) -> tuple[ResponseStore, FakeClock]:
    clock = FakeClock()
    return ResponseStore(tenant_bytes=tenant_bytes, lifetime_s=lifetime_s, clock=clock), clock


def test_what_was_put_is_found_by_its_tenant_and_by_no_other() -> None:
    this, _ = store()
    entry = stored(1000)
    assert this.put("a", "resp_1", entry)
    assert this.get("a", "resp_1") is entry
    assert this.get("b", "resp_1") is None
    assert not this.delete("b", "resp_1")
    assert this.get("a", "resp_1") is entry


def test_what_was_deleted_is_gone_and_its_room_is_free() -> None:
    this, _ = store(tenant_bytes=2000)
    this.put("a", "resp_1", stored(2000))
    assert this.delete("a", "resp_1")
    assert this.get("a", "resp_1") is None
    assert not this.delete("a", "resp_1")
    this.put("a", "resp_2", stored(1200))
    this.put("a", "resp_3", stored(800))
    assert this.get("a", "resp_2") is not None


def test_the_oldest_make_room() -> None:
    this, _ = store(tenant_bytes=3000)
    for number in range(4):
        this.put("a", f"resp_{number}", stored(1000))
    assert [this.get("a", f"resp_{number}") is not None for number in range(4)] == [False, True, True, True]
    this.put("a", "resp_4", stored(2001))
    assert [this.get("a", f"resp_{number}") is not None for number in range(5)] == [False, False, False, False, True]


def test_one_tenant_never_pushes_out_what_another_keeps() -> None:
    this, _ = store(tenant_bytes=1000)
    this.put("a", "resp_1", stored(1000))
    for number in range(50):
        this.put("b", f"resp_{number}", stored(1000))
    assert this.get("a", "resp_1") is not None


def test_what_is_larger_than_a_shelf_is_not_kept_and_pushes_nothing_out() -> None:
    this, _ = store(tenant_bytes=1000)
    this.put("a", "resp_1", stored(1000))
    assert not this.put("a", "resp_2", stored(1001))
    assert this.get("a", "resp_1") is not None
    assert this.get("a", "resp_2") is None


def test_everything_is_forgotten_at_the_end_of_its_life_though_nobody_asks() -> None:
    this, clock = store(lifetime_s=60.0)
    this.put("a", "resp_1", stored(1000))
    clock.advance(30.0)
    this.put("a", "resp_2", stored(1000))
    clock.advance(29.9)
    assert this.get("a", "resp_1") is not None
    clock.advance(0.1)
    assert this.get("a", "resp_1") is None
    assert this.forget_expired()
    clock.advance(30.0)
    assert not this.forget_expired()
