import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dayzero.wire.confined.pool import Gone, Pool

LONG_S = 60.0


@pytest.fixture(autouse=True)
def path_of_the_process(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def accept(_answer: bytes) -> None:
    pass


def with_pool(use: Callable[[Pool], Awaitable[None]], limit_s: float = LONG_S) -> None:
    async def main() -> None:
        pool = Pool("obliging", b"loaded", accept, limit_s=limit_s, processes=1)
        try:
            await use(pool)
        finally:
            await pool.close()

    asyncio.run(main())


@pytest.mark.parametrize("job", [b"memory", b"die", b"raise"])
def test_a_job_that_brings_its_process_down_costs_neither_the_next_one_nor_what_was_loaded(job):
    async def use(pool: Pool) -> None:
        before = await pool.ask(b"who")
        with pytest.raises(Gone):
            await pool.ask(job)
        assert await pool.ask(b"who") == before
        assert before.endswith(b" loaded")

    with_pool(use)


def test_a_job_that_takes_too_long_costs_neither_the_next_one_nor_what_was_loaded():
    async def use(pool: Pool) -> None:
        before = await pool.ask(b"who")
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await pool.ask(b"hang")
        assert await pool.ask(b"who") == before

    with_pool(use, limit_s=0.2)


def test_what_a_job_leaves_behind_goes_with_it():
    async def use(pool: Pool) -> None:
        await pool.ask(b"more")
        assert (await pool.ask(b"who")).endswith(b" loadedmore")
        with pytest.raises(Gone):
            await pool.ask(b"raise")
        assert (await pool.ask(b"who")).endswith(b" loaded")

    with_pool(use)


def test_a_process_that_ends_itself_over_a_job_is_replaced():
    async def use(pool: Pool) -> None:
        with pytest.raises(Gone):
            await pool.ask(b"end")
        assert (await pool.ask(b"who")).endswith(b" loaded")

    with_pool(use)


def test_a_process_that_was_killed_while_it_was_idle_is_not_the_next_jobs_fault():
    async def use(pool: Pool) -> None:
        loaded = int((await pool.ask(b"who")).split()[0])
        os.kill(loaded, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the loop was first to learn of it
            await asyncio.to_thread(os.waitid, os.P_PID, loaded, os.WEXITED | os.WNOWAIT)
        assert int((await pool.ask(b"who")).split()[0]) != loaded

    with_pool(use)


def test_children_end_with_their_process():
    async def main() -> int:
        pool = Pool("obliging", b"loaded", accept, limit_s=LONG_S, processes=1)
        child = int(await pool.ask(b"child"))
        os.kill(child, 0)
        await pool.close()
        return child

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(main()), 0)
