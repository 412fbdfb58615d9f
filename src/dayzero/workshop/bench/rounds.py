"""The rounds of a run: one target has them one after the other, two are interleaved.

Two get the same load within a round, one right after the other, so a slow minute of the machine hits both. The order
turns with each round (A B, B A, A B, ...), so a drift favours neither. The prompts of a round are the same for both
but for their salt: one server behind both URLs would otherwise answer B from what it kept of A.
"""

from collections.abc import Callable, Mapping, Sequence

from dayzero.workshop.bench.run import Driver
from dayzero.workshop.bench.timeline import Timeline

Finished = Callable[[int, str], None]


def order(sides: Sequence[str], rounds: int) -> list[tuple[int, str]]:
    """(round, side) in the order of sending."""
    return [(number, side) for number in range(rounds) for side in (sides if number % 2 == 0 else sides[::-1])]


async def run_rounds(
    drivers: Mapping[str, Driver], rounds: int, record: Callable[[int, str, Timeline], None], finished: Finished
) -> None:
    """Warm all up, then run all rounds; `finished` is called when a side has ended a round."""
    for side, driver in drivers.items():
        await driver.warm_up(side)
    for number, side in order(list(drivers), rounds):
        await drivers[side].measure(side, lambda t, n=number, s=side: record(n, s, t), round_number=number)  # type: ignore[misc]
        finished(number, side)
