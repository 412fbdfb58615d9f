"""The engine's process, driven over its wire by the replica that owns it. The model is fake; the process is real."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.errors import CheckpointError, ReplicaLost
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.wire.messages import Submit

FAKE = EngineConfig(model="fake", fake=FakeModel(vocab_size=1000, max_context=512), max_requests=8, max_step_tokens=64)


def submit(replica: ProcessReplica, request_id: int, max_tokens: int = 8) -> Submit:
    return Submit(
        request_id=request_id,
        prompt=[1, 2, 3],
        params=SamplingParams(max_tokens=max_tokens, seed=request_id),
        salt="s",
        policy_version=replica.spec.policy_version,
    )


async def collect(replica: ProcessReplica, message: Submit) -> list[TokenEvent]:
    return [event async for event in replica.generate(message)]


async def start(config: EngineConfig = FAKE) -> ProcessReplica:
    return await ProcessReplica.start(EngineProcess(config), on_loading=lambda _: None)


async def exhaust(stream: AsyncIterator[TokenEvent]) -> None:
    async for _ in stream:
        pass


def test_every_request_gets_its_tokens_and_one_terminal_event() -> None:
    async def scenario() -> None:
        replica = await start()
        try:
            answers = await asyncio.gather(*(collect(replica, submit(replica, i)) for i in range(1, 21)))
            for events in answers:
                assert [event.finish for event in events if event.finish] == [FinishReason.LENGTH]
                assert sum(len(event.tokens) for event in events) == 8
            assert replica.load.kv_blocks_used == 0
        finally:
            await replica.close()

    asyncio.run(scenario())


def test_the_same_request_gives_the_same_tokens_in_another_process() -> None:
    async def scenario() -> list[int]:
        replica = await start()
        try:
            return [token for event in await collect(replica, submit(replica, 7)) for token in event.tokens]
        finally:
            await replica.close()

    assert asyncio.run(scenario()) == asyncio.run(scenario())


def test_a_signal_for_every_process_leaves_the_end_to_the_gateway() -> None:
    async def scenario() -> None:
        replica = await start()
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(replica._process.pid, number)
            events = await collect(replica, submit(replica, 1))
            assert events[-1].finish is FinishReason.LENGTH
        finally:
            await replica.close()

    asyncio.run(scenario())


def test_a_killed_engine_ends_each_request_with_replica_lost() -> None:
    async def scenario() -> None:
        slow = FakeModel(vocab_size=1000, max_context=4096, step_s=0.02)
        replica = await start(EngineConfig(model="fake", fake=slow, max_requests=8, max_step_tokens=64))
        streams = [replica.generate(submit(replica, i, max_tokens=4000)) for i in range(1, 4)]
        for stream in streams:
            await anext(stream)
        os.kill(replica._process.pid, signal.SIGKILL)
        for stream in streams:
            with pytest.raises(ReplicaLost):
                await exhaust(stream)
        assert not replica.is_alive
        assert replica.num_requests == 0
        await replica.close()

    asyncio.run(scenario())


def test_a_model_that_cannot_be_read_is_told_with_its_own_error() -> None:
    async def scenario() -> None:
        with pytest.raises(CheckpointError, match="no such file"):
            await start(EngineConfig(model="/nowhere/model.gguf"))

    asyncio.run(scenario())


def test_an_engine_does_not_outlive_its_parent_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
                import sys, time
                from dayzero.core.spec import EngineConfig
                from dayzero.fleet.process import EngineProcess
                print(EngineProcess(EngineConfig(model="x")).pid, flush=True)
                time.sleep(60)
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    engine = int(parent.stdout.readline())
    parent.stdout.close()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while runs(engine) and time.monotonic() < deadline:
        os.sched_yield()
    assert not runs(engine)
    assert list(tmp_path.iterdir()) == []


def runs(pid: int) -> bool:
    """Whether the process lives; one that nobody has reaped yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
