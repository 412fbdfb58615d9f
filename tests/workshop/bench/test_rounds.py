import asyncio

from dayzero.workshop.bench.rounds import order, run_rounds


def test_the_order_turns_with_each_round():
    assert order("AB", 3) == [(0, "A"), (0, "B"), (1, "B"), (1, "A"), (2, "A"), (2, "B")]
    assert order("A", 2) == [(0, "A"), (1, "A")]


class RecordingDriver:
    def __init__(self, log):
        self._log = log

    async def warm_up(self, label):
        self._log.append(("warm up", label))

    async def measure(self, label, record, *, round_number):
        record(f"request of {label}")
        self._log.append((round_number, label))


def test_sides_warm_up_once_and_each_record_lands_in_its_round():
    log, recorded, finished = [], [], []
    drivers = {"A": RecordingDriver(log), "B": RecordingDriver(log)}
    asyncio.run(run_rounds(drivers, 2, lambda *record: recorded.append(record), lambda *run: finished.append(run)))
    assert log == [("warm up", "A"), ("warm up", "B"), (0, "A"), (0, "B"), (1, "B"), (1, "A")]
    assert finished == [(0, "A"), (0, "B"), (1, "B"), (1, "A")]
    assert recorded == [(number, side, f"request of {side}") for number, side in finished]
