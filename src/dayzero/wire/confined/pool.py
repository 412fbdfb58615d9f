"""The outside of confined processes: a few of one kind, each of which does one job at a time.

A job that takes too long, too much memory or its process down costs that job only: it is done by a child of a process
that has loaded what all jobs need, and the next one gets another child, so no job sees the remains of one that failed.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Self

from dayzero.wire.confined.worker import ANSWER, BROUGHT_DOWN, END, JOB, MAX_MESSAGE_BYTES, TOO_LONG

_START_LIMIT_S = 30.0  # a cold disk; what loads for ever is still found
_END_LIMIT_S = 1.0  # that a process may take to end its child and itself
_PATIENCE_RATIO = 2.0  # the process's own alarm rings at the limit; should it not, it is killed


class Gone(Exception):
    """The job brought its process down, or that sent what is no answer."""


class CannotLoad(Exception):
    """A new process did not come to the point where it takes jobs."""


class Pool:
    """Processes of one module, each of which is told the same first job, `load`.

    module    run by its name; calls `worker.run`
    loaded    looks at the answer to `load`, and raises if that is a refusal
    limit_s   of each later job
    """

    def __init__(
        self, module: str, load: bytes, loaded: Callable[[bytes], None], *, limit_s: float, processes: int
    ) -> None:
        self._module = module
        self._load = load
        self._loaded = loaded
        self._limit_s = limit_s
        self._free = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._is_closed = False

    async def start(self) -> None:
        """Start the first process. Raises CannotLoad, and what `loaded` does."""
        async with self._free:
            self._idle.append(await self._started())

    async def ask(self, job: bytes) -> bytes:
        """The answer to a job. Raises TimeoutError or Gone; CannotLoad if there was no process for it.

        Any number may wait: whoever admits requests bounds them.
        """
        async with self._free:
            process = await self._take_idle() or await self._started()
            try:
                return await process.ask(job, self._limit_s)
            finally:
                if process.is_sound and not self._is_closed:
                    self._idle.append(process)
                else:
                    await process.kill()

    async def close(self) -> None:
        """End all processes; one that is at work ends when its job does."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().kill()

    async def _take_idle(self) -> "_Process | None":
        """One that still lives: what killed another while it was idle is not the next job's fault."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            await process.kill()
        return None

    async def _started(self) -> "_Process":
        process = await _Process.spawn(self._module)
        is_loaded = False
        try:
            self._loaded(await process.ask(self._load, _START_LIMIT_S))
            is_loaded = True
        except (TimeoutError, Gone) as error:
            raise CannotLoad from error
        finally:
            if not is_loaded:
                await process.kill()
        return process


class _Process:
    """One confined process, and its children.

    is_sound   whether it has answered all that it was asked: only then may it be asked again
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.is_sound = True

    @classmethod
    async def spawn(cls, module: str) -> Self:
        # No environment but what finds the code: keys and tokens are no business of a template's or a grammar's.
        environment = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # a traceback there would quote prompts
            env=environment,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not _has_ended(self._process.pid)

    async def ask(self, job: bytes, limit_s: float) -> bytes:
        """Send an encoded job. Raises Gone or TimeoutError."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self.is_sound = False
        try:
            async with asyncio.timeout(limit_s * _PATIENCE_RATIO):
                stdin.write(JOB.pack(len(job), limit_s) + job)
                await stdin.drain()
                (num_bytes,) = ANSWER.unpack(await stdout.readexactly(ANSWER.size))
                if num_bytes in {TOO_LONG, BROUGHT_DOWN}:
                    self.is_sound = True
                    raise TimeoutError if num_bytes == TOO_LONG else Gone
                if num_bytes > MAX_MESSAGE_BYTES:
                    raise Gone
                answer = await stdout.readexactly(num_bytes)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Gone from error
        self.is_sound = True
        return answer

    async def kill(self) -> None:
        try:
            async with asyncio.timeout(_END_LIMIT_S):
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(END)
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.communicate()


def _has_ended(pid: int) -> bool:
    """Asked of the system, since the loop learns of it a little later. Leaves the end for the loop to learn of."""
    if not hasattr(os, "waitid"):  # macOS
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
