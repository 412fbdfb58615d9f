import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest

from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig
from dayzero.errors import CapacityError, CheckpointError, ConfigError, InternalError, ReplicaLost
from dayzero.fleet.process import EngineProcess, ProcessReplica
from dayzero.wire.messages import Loading, Submit

FAKE_ENGINE = (sys.executable, str(Path(__file__).with_name("fake_engine.py")))
FOREVER = 10**9


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets go where the test can look for leftovers."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@contextlib.asynccontextmanager
async def replica(
    model: str = "ok", *flags: str, on_loading: Callable[[Loading], None] = lambda _: None
) -> AsyncIterator[ProcessReplica]:
    process = EngineProcess(EngineConfig(model=model), command=(*FAKE_ENGINE, *flags))
    started = await ProcessReplica.start(process, on_loading=on_loading, timeout_s=30)
    try:
        yield started
    finally:
        await started.close()


def submit(request_id: int, max_tokens: int) -> Submit:
    params = SamplingParams(max_tokens=max_tokens, seed=0)
    return Submit(request_id=request_id, prompt=[1], params=params, salt="", policy_version="fake-1")


async def tokens_of(replica: ProcessReplica, request: Submit) -> list[int]:
    return [token async for event in replica.generate(request) for token in event.tokens]


def run(scenario: Coroutine[None, None, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


def test_start_reports_progress_and_ends_with_the_spec() -> None:
    async def scenario() -> None:
        progress: list[Loading] = []
        async with replica(on_loading=progress.append) as fake:
            assert fake.spec.policy_version == "fake-1"
            assert fake.is_alive
        assert progress == [Loading("weights", 1, 2)]

    run(scenario())


def test_many_requests_at_once_each_get_their_own_tokens() -> None:
    async def scenario() -> None:
        async with replica() as fake, asyncio.TaskGroup() as group:
            readers = [group.create_task(tokens_of(fake, submit(i, 5 + i))) for i in range(20)]
        assert [reader.result() for reader in readers] == [list(range(5 + i)) for i in range(20)]

    run(scenario())


def test_a_slow_reader_gets_longer_deltas_and_no_queue() -> None:
    async def scenario() -> None:
        async with replica() as fake:
            slow = fake.generate(submit(1, 200))
            first = await anext(slow)
            await tokens_of(fake, submit(2, 300))  # by then all of request 1 has arrived
            second = await anext(slow)
            assert first.tokens + second.tokens == list(range(200))
            assert second.finish is FinishReason.LENGTH

    run(scenario())


def test_leaving_the_stream_aborts_the_request() -> None:
    async def scenario() -> None:
        async with replica() as fake:
            async with contextlib.aclosing(fake.generate(submit(1, FOREVER))) as events:
                await anext(events)
            assert fake.num_requests == 0
            await tokens_of(fake, submit(2, 3))
            assert fake.load.running == 0

    run(scenario())


def test_cancelling_the_reader_aborts_the_request() -> None:
    async def scenario() -> None:
        async with replica() as fake:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await tokens_of(fake, submit(1, FOREVER))
            await tokens_of(fake, submit(2, 3))
            assert (fake.num_requests, fake.load.running) == (0, 0)

    run(scenario())


def test_a_killed_engine_ends_each_request_in_flight_with_replica_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replica() as fake:
            streams = [fake.generate(submit(i, FOREVER)) for i in range(8)]
            for stream in streams:
                await anext(stream)
            killed_s = time.monotonic()
            os.kill(fake._process.pid, signal.SIGKILL)
            results = await asyncio.gather(*map(_drain, streams), return_exceptions=True)
            assert [type(result) for result in results] == [ReplicaLost] * 8
            assert time.monotonic() - killed_s < 5
            assert not fake.is_alive
            assert fake.num_requests == 0
            with pytest.raises(ReplicaLost):
                await tokens_of(fake, submit(9, 1))

    run(scenario())
    assert os.listdir(tmp_path) == []


async def _drain(stream: AsyncIterator[object]) -> None:
    async for _ in stream:
        pass


@pytest.mark.parametrize(("model", "error"), [("fatal2", ConfigError), ("fatal3", CheckpointError)])
def test_a_fatal_message_at_start_is_raised_as_the_error_it_was(model: str, error: type[Exception]) -> None:
    async def scenario() -> None:
        async with replica(model):
            pass

    with pytest.raises(error, match="cannot load: x\nhint: do y"):
        run(scenario())


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        ("dies", (), "exit code 7"),
        ("ok", ("--protocol-9",), "another protocol: 9"),
        ("fatal1", (), "cannot load"),
    ],
)
def test_an_engine_that_cannot_start_is_an_internal_error(
    model: str, flags: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with replica(model, *flags):
            pass

    with pytest.raises(InternalError, match=message):
        run(scenario())
    assert os.listdir(tmp_path) == []


def test_an_engine_that_says_nothing_is_given_up() -> None:
    async def scenario() -> None:
        process = EngineProcess(EngineConfig(model="ok"), command=(*FAKE_ENGINE, "--mute"))
        with pytest.raises(InternalError, match="did not start within"):
            await ProcessReplica.start(process, on_loading=lambda _: None, timeout_s=0.05)
        assert process._child.returncode is not None

    run(scenario())


def test_an_engine_that_babbles_is_ended() -> None:
    async def scenario() -> None:
        async with replica("babbles") as fake:
            with pytest.raises(ReplicaLost):
                await tokens_of(fake, submit(1, FOREVER))
            assert not fake.is_alive

    run(scenario())


def test_an_engine_that_does_not_read_for_long_loses_nothing_and_is_not_lost() -> None:
    async def scenario() -> None:
        async with replica() as fake:
            os.kill(fake._process.pid, signal.SIGSTOP)
            with pytest.raises(CapacityError):
                await submit_and_leave(fake, times=100_000)
            assert fake.is_alive
            os.kill(fake._process.pid, signal.SIGCONT)
            assert await tokens_when_taken(fake, submit(-1, 3)) == [0, 1, 2]
            await turns_until(lambda: fake.load.running == 0)

    run(scenario())


async def tokens_when_taken(fake: ProcessReplica, request: Submit) -> list[int]:
    for _ in range(10**7):
        try:
            return await tokens_of(fake, request)
        except CapacityError:
            await asyncio.sleep(0)
    raise AssertionError("it was never taken")


async def submit_and_leave(fake: ProcessReplica, *, times: int) -> None:
    for number in range(times):
        reader = asyncio.create_task(tokens_of(fake, submit(number, FOREVER)))
        await asyncio.sleep(0)
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader


async def turns_until(condition: Callable[[], bool]) -> None:
    for _ in range(10**7):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never held")


def test_nothing_is_left_in_the_file_system_while_an_engine_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replica() as fake:
            assert os.listdir(tmp_path) == []
            assert await tokens_of(fake, submit(1, 3)) == [0, 1, 2]

    run(scenario())


def test_without_a_folder_for_temporary_files_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.rmdir()
    with pytest.raises(ConfigError, match=r"no folder for temporary files: .*\nhint: set TMPDIR"):
        EngineProcess(EngineConfig(model="ok"), command=FAKE_ENGINE)


def test_a_lost_engine_holds_nothing() -> None:
    async def scenario() -> None:
        async with replica() as fake:
            reader = asyncio.create_task(tokens_of(fake, submit(1, FOREVER)))
            await turns_until(lambda: fake.load.running == 1)
            os.kill(fake._process.pid, signal.SIGKILL)
            with pytest.raises(ReplicaLost):
                await reader
            assert fake.load.running == 0
            assert fake.load.steps > 0

    run(scenario())


def test_an_engine_that_ignores_shutdown_is_killed() -> None:
    async def scenario() -> None:
        async with replica("stubborn") as fake:
            await fake.close(deadline_s=0.1)
            assert fake._process._child.returncode == -signal.SIGKILL

    run(scenario())


def test_the_front_half_can_spawn_before_any_server_library_is_loaded() -> None:
    code = "import sys, dayzero.fleet.process; print(sorted({'fastapi', 'uvicorn', 'torch'} & set(sys.modules)))"

    async def scenario() -> None:
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        assert (await child.communicate())[0] == b"[]\n"

    run(scenario())
