"""The inputs of one embeddings request at an engine: however it ends, none of them goes on there."""

import asyncio

import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.errors import InternalError, ReplicaLost
from dayzero.gateway.admission import Admission
from dayzero.gateway.embedding import Embedder, EmbeddingWork
from dayzero.gateway.errors import DeadlinePassed
from dayzero.gateway.metrics import Metrics
from dayzero.router.fake import FakeReplica, hashed_embedding
from dayzero.wire.messages import Load, Submit
from tests.gateway.stand import SPEC, turns_until

BAD, HANGS = 66, 67  # first tokens


def script(submit: Submit) -> list[TokenEvent]:
    if submit.prompt[0] == BAD:
        return [TokenEvent(submit.request_id, finish=FinishReason.ERROR, error="no finite logits")]
    return [] if submit.prompt[0] == HANGS else [hashed_embedding(submit, SPEC)]


def work(*inputs: int, at_once: int = 4, deadline_s: float = 60.0) -> EmbeddingWork:
    return EmbeddingWork(
        inputs=[[first, 70] for first in inputs],
        at_once=at_once,
        pooling="mean",
        endpoint="",
        salt="s",
        tenant="t",
        priority=0,
        deadline_s=deadline_s,
    )


class Run:
    """An embedder over a fake."""

    def __init__(self) -> None:
        self.replica = FakeReplica(SPEC, script)
        self.embedder = Embedder(self.replica, Metrics(Load, Admission(9)))

    async def run(self, work: EmbeddingWork) -> list[bytes]:
        return await self.embedder.run(work)


def test_embeddings_come_in_the_order_of_their_inputs() -> None:
    run = Run()
    found = asyncio.run(run.run(work(*range(70, 90))))
    by_prompt = {submit.prompt[0]: hashed_embedding(submit, SPEC).embedding for submit in run.replica.submits}
    assert found == [by_prompt[first] for first in range(70, 90)]


def test_an_input_that_fails_ends_the_request_and_the_others_at_the_engine() -> None:
    run = Run()
    with pytest.raises(InternalError, match="no finite logits"):
        asyncio.run(run.run(work(HANGS, HANGS, BAD, 70)))
    assert run.replica.running == {}


def test_an_engine_that_hangs_is_left_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayzero.gateway.generate.DEADLINE_GRACE_S", 0.0)
    run = Run()
    with pytest.raises(DeadlinePassed):
        asyncio.run(run.run(work(70, HANGS, deadline_s=0.01)))
    assert run.replica.running == {}
    assert len(run.replica.aborted) == 1


def test_leaving_early_aborts_every_input() -> None:
    run = Run()

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run.run(work(HANGS, HANGS, HANGS))

    asyncio.run(scenario())
    assert run.replica.running == {}
    assert len(run.replica.aborted) == 3


def test_an_engine_that_dies_is_told() -> None:
    run = Run()

    async def scenario() -> None:
        task = asyncio.create_task(run.run(work(HANGS, HANGS)))
        await turns_until(lambda: len(run.replica.running) == 2)
        run.replica.die()
        with pytest.raises(ReplicaLost):
            await task

    asyncio.run(scenario())
    assert run.replica.running == {}


def test_no_more_than_asked_for_are_at_the_engine_at_a_time() -> None:
    run = Run()

    async def scenario() -> None:
        task = asyncio.create_task(run.run(work(*[HANGS] * 9, at_once=2)))
        await turns_until(lambda: len(run.replica.running) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(run.replica.submits) == 2
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert run.replica.running == {}
