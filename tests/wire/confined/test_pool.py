import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dayzero.wire.confined.pool import CannotLoad, Confined, Gone, Pool

LONG_S = 60.0


@pytest.fixture(autouse=True)
def path_of_the_process(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def accept(_answer: bytes) -> None:
    pass


def with_pool(use: Callable[[Pool], Awaitable[None]], limit_s: float = LONG_S, processes: int = 1) -> None:
    async def main() -> None:
        confined = Confined("obliging", b"loaded", accept)
        try:
            await use(Pool(confined, limit_s=limit_s, processes=processes))
        finally:
            await confined.close()

    asyncio.run(main())


async def until_ended(pid: int, *, is_waited_for: bool = True) -> None:
    """Wait for the end of a process that is no child of ours. is_waited_for: and until its parent knows of it."""
    while state := _state(pid):
        if state == "Z" and not is_waited_for:
            return
        await asyncio.sleep(0.01)


async def until_one_child(pid: int) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(1000):
        if len(children.read_text().split()) == 1:  # noqa: ASYNC240 - of /proc
            return
        await asyncio.sleep(0.01)
    raise AssertionError("children that nobody ended")


def _state(pid: int) -> str:
    """A letter, as /proc has it; "": there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


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


@pytest.mark.parametrize("which", [b"who", b"child"])
def test_a_process_that_was_killed_while_it_was_idle_is_not_the_next_jobs_fault(which):
    """The root, or a child."""

    async def use(pool: Pool) -> None:
        killed = int((await pool.ask(which)).split()[0])
        os.kill(killed, signal.SIGKILL)
        if which == b"child":
            await until_ended(killed, is_waited_for=False)
        else:
            with contextlib.suppress(ChildProcessError):  # the loop was first to learn of it
                await asyncio.to_thread(os.waitid, os.P_PID, killed, os.WEXITED | os.WNOWAIT)
        assert int((await pool.ask(which)).split()[0]) != killed

    with_pool(use)


def test_children_end_with_their_root_at_work_or_not():
    async def main() -> list[int]:
        confined = Confined("obliging", b"loaded", accept)
        pool = Pool(confined, limit_s=LONG_S, processes=2)
        idle = int(await pool.ask(b"child"))
        asked = asyncio.create_task(pool.ask(b"hang"))
        at_work = int(await pool.ask(b"child"))
        await confined.close()
        with pytest.raises(Gone):
            await asked
        with pytest.raises(CannotLoad):
            await pool.ask(b"who")
        return [idle, at_work]

    for pid in asyncio.run(main()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_job_that_nobody_waits_for_any_more_is_ended():
    async def use(pool: Pool) -> None:
        child = int(await pool.ask(b"child"))
        asked = asyncio.create_task(pool.ask(b"hang"))
        await asyncio.sleep(0)
        asked.cancel()
        await until_ended(child)
        assert (await pool.ask(b"who")).endswith(b" loaded")

    with_pool(use)


def test_more_orders_than_a_root_reads_at_once_are_all_followed():
    async def use(pool: Pool) -> None:
        root = int((await pool.ask(b"who")).split()[0])
        for _ in range(400):
            asked = asyncio.create_task(pool.ask(b"hang"))
            for _ in range(8):  # until it is ordered and sent
                await asyncio.sleep(0)
            asked.cancel()
        assert (await pool.ask(b"who")).startswith(f"{root} ".encode())
        await until_one_child(root)

    with_pool(use)


def test_children_of_one_root_work_side_by_side():
    async def use(pool: Pool) -> None:
        asked = asyncio.create_task(pool.ask(b"hang"))
        roots = {await pool.ask(b"who") for _ in range(3)}
        assert len(roots) == 1
        asked.cancel()

    with_pool(use, processes=2)


def test_nobody_who_ended_stays_behind():
    """Children that failed are waited for by their root."""

    async def use(pool: Pool) -> None:
        root = int((await pool.ask(b"who")).split()[0])
        for job in (b"end", b"die", b"raise"):
            child = int(await pool.ask(b"child"))
            with pytest.raises(Gone):
                await pool.ask(job)
            await until_ended(child)
        assert (await pool.ask(b"who")).startswith(f"{root} ".encode())

    with_pool(use)
