import asyncio

import pytest

from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.errors import ReplicaLost
from dayzero.fleet.mailbox import Mailbox, merge


def test_an_event_that_waits_alone_is_read_as_it_came() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        mailbox.put(TokenEvent(1, [5]))
        assert await mailbox.take() == TokenEvent(1, [5])

    asyncio.run(scenario())


def test_events_that_wait_are_merged_into_one() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        mailbox.put(TokenEvent(1, [5], cached_tokens=3, prompt_logprobs=[None], logprobs=[Logprob(5, -1.0, 1)]))
        mailbox.put(TokenEvent(1, [6], logprobs=[Logprob(6, -2.0, 2)]))
        mailbox.put(TokenEvent(1, [7], finish=FinishReason.STOP, logprobs=[Logprob(7, -3.0, 3)]))
        assert await mailbox.take() == TokenEvent(
            1,
            [5, 6, 7],
            finish=FinishReason.STOP,
            logprobs=[Logprob(5, -1.0, 1), Logprob(6, -2.0, 2), Logprob(7, -3.0, 3)],
            prompt_logprobs=[None],
            cached_tokens=3,
        )

    asyncio.run(scenario())


def test_a_reader_that_waits_is_woken_by_an_event() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(mailbox.take())
            await asyncio.sleep(0)
            mailbox.put(TokenEvent(1, [5]))
        assert reader.result().tokens == [5]

    asyncio.run(scenario())


def test_an_error_is_raised_after_what_waits_was_read() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        mailbox.put(TokenEvent(1, [5]))
        mailbox.fail(ReplicaLost("gone"))
        assert (await mailbox.take()).tokens == [5]
        with pytest.raises(ReplicaLost):
            await mailbox.take()

    asyncio.run(scenario())


def test_nothing_counts_after_the_terminal_event() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        mailbox.put(TokenEvent(1, [5], finish=FinishReason.STOP))
        mailbox.put(TokenEvent(1, [6]))
        mailbox.fail(ReplicaLost("gone"))
        assert await mailbox.take() == TokenEvent(1, [5], finish=FinishReason.STOP)

    asyncio.run(scenario())


def test_merging_keeps_the_error_and_the_finish_of_the_later_event() -> None:
    merged = merge(TokenEvent(1, [5]), TokenEvent(1, finish=FinishReason.ERROR, error="not finite"))
    assert merged == TokenEvent(1, [5], finish=FinishReason.ERROR, error="not finite")
