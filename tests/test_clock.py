from dayzero.clock import FakeClock, SystemClock


def test_a_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(10.0)
    assert clock.now_s() == clock.now_s() == 10.0
    clock.advance(2.5)
    assert clock.now_s() == 12.5


def test_the_system_clock_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now_s() <= clock.now_s()
