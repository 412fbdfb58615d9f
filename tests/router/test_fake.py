import asyncio

import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.errors import ReplicaLost
from dayzero.router.fake import FakeReplica
from dayzero.wire.messages import Submit
from tests.gateway.stand import SPEC


def submit(request_id: int = 1, *, choice: int = 0, **params: int) -> Submit:
    return Submit(
        request_id=request_id,
        prompt=[5, 6, 7],
        params=SamplingParams(**{"max_tokens": 4, "seed": 1, **params}),
        salt="",
        policy_version="fake-1",
        choice=choice,
    )


def run(request: Submit, replica: FakeReplica | None = None) -> list[TokenEvent]:
    async def collect() -> list[TokenEvent]:
        return [event async for event in (replica or FakeReplica(SPEC)).generate(request)]

    return asyncio.run(collect())


def tokens(events: list[TokenEvent]) -> list[int]:
    return [token for event in events for token in event.tokens]


def test_tokens_depend_on_the_request_and_not_on_its_id() -> None:
    assert tokens(run(submit(1))) == tokens(run(submit(2)))
    assert tokens(run(submit(choice=0))) != tokens(run(submit(choice=1)))
    assert tokens(run(submit(seed=1))) != tokens(run(submit(seed=2)))


def test_there_is_one_terminal_event_and_it_is_the_last() -> None:
    assert [event.finish for event in run(submit())] == [None, None, None, FinishReason.LENGTH]


def test_log_probs_come_as_asked() -> None:
    events = run(submit(logprobs=2, prompt_logprobs=1))
    assert all(event.logprobs is not None and len(event.logprobs[0].top) == 2 for event in events)
    assert events[0].prompt_logprobs is not None
    assert [entry and entry.token for entry in events[0].prompt_logprobs] == [None, 6, 7]


def test_a_request_without_output_still_has_its_terminal_event() -> None:
    assert [event.finish for event in run(submit(max_tokens=0, prompt_logprobs=0))] == [FinishReason.LENGTH]


def test_an_abort_ends_the_request_with_abort() -> None:
    async def scenario() -> None:
        replica = FakeReplica(SPEC, lambda _: [])
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(anext(replica.generate(submit())))
            await asyncio.sleep(0)
            await replica.abort(1)
        assert reading.result().finish is FinishReason.ABORT
        await replica.abort(1)

    asyncio.run(scenario())


def test_a_death_ends_each_request_with_replica_lost() -> None:
    async def scenario() -> None:
        replica = FakeReplica(SPEC, lambda _: [])
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(fails(replica, i)) for i in range(3)]
            await asyncio.sleep(0)
            replica.die()
        assert all(task.result() for task in reading)
        assert await fails(replica, 9)

    async def fails(replica: FakeReplica, request_id: int) -> bool:
        with pytest.raises(ReplicaLost):
            await anext(replica.generate(submit(request_id)))
        return True

    asyncio.run(scenario())
