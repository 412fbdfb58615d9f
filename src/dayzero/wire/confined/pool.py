"""The outside of confined processes: a root of one kind, and pools of children of it.

A job that takes too long, too much memory or its process down costs that job only: the next one gets another child of
the root, which has loaded what all need. So no job waits for that, or sees the remains of one that failed.
"""

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Self

from dayzero.wire.confined.worker import ANSWER, FORK, JOB, KILL, MAX_MESSAGE_BYTES, ORDER

_START_LIMIT_S = 30.0  # a cold disk; what loads for ever is still found
_END_LIMIT_S = 1.0  # that a root may take to end its children and itself
_RETRY_S = 0.005  # a root forks a child in two milliseconds
_PATIENCE_RATIO = 2.0  # a child's own alarm rings at the limit; should it not, it is killed


class Gone(Exception):
    """The job brought its process down, or that sent what is no answer."""


class CannotLoad(Exception):
    """A new root did not come to the point where it forks."""


class Confined:
    """A root, started when it is needed and again when it has ended.

    module    run by its name; calls `worker.run`
    load      the job that it loads by
    loaded    looks at the answer to that, and raises if it is a refusal
    """

    def __init__(self, module: str, load: bytes, loaded: Callable[[bytes], None]) -> None:
        self._module = module
        self._load = load
        self._loaded = loaded
        self._root: _Root | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    @property
    def is_alive(self) -> bool:
        return self._root is not None and self._root.is_alive

    async def start(self) -> None:
        """Raises CannotLoad, and what `loaded` does."""
        async with self._starting:
            if self._is_closed:
                raise CannotLoad
            if not self.is_alive:
                await self._end()
                self._root = await self._started()

    async def child(self) -> "Child":
        """A new one. Raises what `start` does."""
        await self.start()
        assert self._root is not None
        return await self._root.child()

    async def close(self) -> None:
        """End the root and its children, those at work too, for good."""
        self._is_closed = True
        async with self._starting:
            await self._end()

    async def _end(self) -> None:
        root, self._root = self._root, None
        if root is not None:
            await root.close()

    async def _started(self) -> "_Root":
        root = await _Root.spawn(self._module)
        try:
            loader = await root.child()
            try:
                self._loaded(await loader.ask(self._load, _START_LIMIT_S))
            finally:
                loader.leave()
        except BaseException as error:
            await root.close()
            if isinstance(error, OSError | Gone):  # TimeoutError among them
                raise CannotLoad from error
            raise
        return root


class Pool:
    """Children of a root, so many at most, each of which does a job at a time, in `limit_s`."""

    def __init__(self, confined: Confined, *, limit_s: float, processes: int) -> None:
        self._confined = confined
        self._limit_s = limit_s
        self._free = asyncio.Semaphore(processes)
        self._idle: list[Child] = []

    async def ask(self, job: bytes) -> bytes:
        """The answer to a job. Raises TimeoutError or Gone; CannotLoad if there was no process for it.

        Any number may wait: whoever admits requests bounds them.
        """
        async with self._free:
            try:
                child = self._idle_one() or await self._confined.child()
            except OSError as error:  # no more descriptors or processes
                raise CannotLoad from error
            try:
                answer = await child.ask(job, self._limit_s)
            except BaseException:
                child.kill()
                raise
            self._idle.append(child)
            return answer

    def _idle_one(self) -> "Child | None":
        """One that still lives: what killed another while it was idle is not the next job's fault."""
        while self._idle:
            child = self._idle.pop()
            if self._confined.is_alive and child.is_alive:
                return child
            child.kill()
        return None


class Child:
    """One process that does jobs, and its channel."""

    def __init__(
        self, channel: socket.socket, jobs: asyncio.StreamWriter, answers: asyncio.StreamReader, end: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._jobs = jobs
        self._answers = answers
        self._end = end

    @property
    def is_alive(self) -> bool:
        return _is_open(self._channel)

    async def ask(self, job: bytes, limit_s: float) -> bytes:
        """Raises Gone or TimeoutError, after which it must not be asked again."""
        started_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limit_s * _PATIENCE_RATIO):
                self._jobs.write(JOB.pack(len(job), limit_s) + job)
                await self._jobs.drain()
                (num_bytes,) = ANSWER.unpack(await self._answers.readexactly(ANSWER.size))
                if num_bytes > MAX_MESSAGE_BYTES:
                    raise Gone
                return await self._answers.readexactly(num_bytes)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            if asyncio.get_running_loop().time() - started_s >= limit_s:
                raise TimeoutError from error
            raise Gone from error

    def kill(self) -> None:
        """Whether it still lives or not."""
        self.leave()
        self._end()

    def leave(self) -> None:
        """Close the channel; a process that waits for a job there ends."""
        self._jobs.transport.abort()


class _Root:
    """The process that forks, and the socket on which it is told to."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._numbers = itertools.count()
        self._children: dict[int, Child] = {}
        self._orders: deque[tuple[bytes, socket.socket | None]] = deque()  # that the control has no room for
        self._retry: asyncio.TimerHandle | None = None

    @classmethod
    async def spawn(cls, module: str) -> Self:
        # No environment but what finds the code: keys and tokens are no business of a template's or a grammar's.
        environment = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                module,
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,  # a traceback there would quote prompts
                env=environment,
            )
        except BaseException:
            ours.close()  # whatever was started finds no orders, and ends
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    @property
    def is_alive(self) -> bool:
        return _is_open(self._control)

    async def child(self) -> Child:
        """A new one; the first is the root itself. Raises CannotLoad if the root has ended."""
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        try:
            answers, jobs = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        child = self._children[number] = Child(ours, jobs, answers, lambda: self._kill(number))
        self._order(ORDER.pack(FORK, number), theirs)
        if not self.is_alive:
            raise CannotLoad
        return child

    async def close(self) -> None:
        for child in self._children.values():
            child.leave()
        self._drop_orders()
        self._control.close()
        try:
            async with asyncio.timeout(_END_LIMIT_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _kill(self, number: int) -> None:
        del self._children[number]
        self._order(ORDER.pack(KILL, number))

    def _order(self, order: bytes, channel: socket.socket | None = None) -> None:
        """Tell the root, as soon as it has read what it was told before. `channel` goes with it, and is closed here."""
        self._orders.append((order, channel))
        if self._retry is None:
            self._send_orders()

    def _send_orders(self) -> None:
        self._retry = None
        try:
            while self._orders:
                order, channel = self._orders[0]
                socket.send_fds(self._control, [order], [] if channel is None else [channel.fileno()])
                self._orders.popleft()
                if channel is not None:
                    channel.close()
        except ConnectionError:  # it has ended, and so have its children
            self._drop_orders()
        except OSError:  # there is no room: it reads slowly, or the system has none
            if self._control.fileno() >= 0:
                self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._send_orders)
            else:
                self._drop_orders()

    def _drop_orders(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        while self._orders:
            _, channel = self._orders.popleft()
            if channel is not None:
                channel.close()


def _is_open(channel: socket.socket) -> bool:
    """Whether the other end is. Asked of the system, since the loop learns of it a little later."""
    try:
        channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
