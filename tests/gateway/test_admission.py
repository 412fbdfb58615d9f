import asyncio

import pytest

from dayzero.errors import Draining, QueueFull, RequestError
from dayzero.gateway.admission import Admission


def test_places_are_held_and_given_back() -> None:
    admission = Admission(3)
    with admission.admit(2):
        assert admission.in_flight == 2
    assert admission.in_flight == 0


def test_a_place_is_given_back_after_an_error() -> None:
    admission = Admission(3)
    with pytest.raises(KeyError), admission.admit(2):
        raise KeyError
    assert admission.in_flight == 0


def test_more_than_is_free_is_refused_and_takes_nothing() -> None:
    admission = Admission(3)
    with admission.admit(2), pytest.raises(QueueFull):
        admission.admit(2).__enter__()
    assert admission.in_flight == 0


def test_more_than_there_is_is_the_clients_fault() -> None:
    with pytest.raises(RequestError):
        Admission(3).admit(4).__enter__()


def test_places_are_held_in_what_counts_those_of_others_too() -> None:
    together = Admission(5)
    short, long = Admission(3, within=together), Admission(2, within=together)
    with short.admit(2), long.admit(1):
        assert (short.in_flight, long.in_flight, together.in_flight) == (2, 1, 3)
        with pytest.raises(QueueFull):
            long.admit(2).__enter__()
        assert together.in_flight == 3
    assert (short.in_flight, long.in_flight, together.in_flight) == (0, 0, 0)


def test_what_is_drained_together_takes_nothing_new_anywhere() -> None:
    together = Admission(5)
    together.drain()
    with pytest.raises(Draining):
        Admission(3, within=together).admit(1).__enter__()


def test_a_draining_server_takes_nothing_new_and_is_empty_when_the_last_one_leaves() -> None:
    async def scenario() -> None:
        admission = Admission(3)
        with admission.admit(1):
            admission.drain()
            with pytest.raises(Draining):
                admission.admit(1).__enter__()
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(admission.wait_until_empty())
                await asyncio.sleep(0)
                assert not waiting.done()
                admission._empty.set()  # as leaving the block below would
        await admission.wait_until_empty()

    asyncio.run(scenario())
