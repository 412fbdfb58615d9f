"""Chat templates rendered in confined processes, for a server: none can take its time or memory.

A job that takes too long, too much memory or the process down is a RequestError for its own request; the process is
replaced before the next job, so no job sees another's remains.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Self

import msgspec

from dayzero.errors import CheckpointError, RequestError
from dayzero.text.conversation import Conversation, Rendering
from dayzero.text.jobs import (
    LENGTH_BYTES,
    MAX_MESSAGE_BYTES,
    Answer,
    Loaded,
    LoadTemplate,
    Refused,
    Render,
    Rendered,
)
from dayzero.text.veil import alphabet_of

_START_LIMIT_S = 30.0  # a cold disk; a template that compiles for ever is still found
_ALARM_RATIO = 2.0  # the process's own alarm, should we be gone


class _Gone(Exception):
    """The process ended, or sent what is no answer."""


class _Process:
    """One confined process; serves one job at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def spawn(cls) -> Self:
        # No environment but what finds the code: keys and tokens are no business of a template's.
        environment = {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "dayzero.text.confined",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # a traceback there would quote prompts
            env=environment,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, message: bytes, limit_s: float) -> Answer:
        """Send an encoded job. Raises _Gone or TimeoutError; the process is of no more use then."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                stdin.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)
                await stdin.drain()
                length = int.from_bytes(await stdout.readexactly(LENGTH_BYTES), "little")
                if length > MAX_MESSAGE_BYTES:
                    raise _Gone
                answer: Answer = msgspec.msgpack.decode(await stdout.readexactly(length), type=Answer)
                return answer
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError) as error:
            raise _Gone from error

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()


class ConfinedTemplate:
    """`ChatTemplate` with the same results, over a small pool of processes.

    Knows the markup of the tokenizer, so that `text.chat.encode_rendering` can tell client text from the template's.
    """

    def __init__(
        self,
        source: str,
        named_tokens: Mapping[str, str],
        *,
        markup: Mapping[str, int],
        limit_s: float = 2.0,
        processes: int = 2,
    ) -> None:
        load = LoadTemplate(source, dict(named_tokens), alphabet_of(markup), _START_LIMIT_S * _ALARM_RATIO)
        self._load = msgspec.msgpack.encode(load)
        self._limit_s = limit_s
        self._free = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._is_closed = False

    async def start(self) -> None:
        """Start the first process. Raises CheckpointError if the template does not compile."""
        async with self._free:
            self._idle.append(await self._loaded())

    async def render(self, chat: Conversation) -> Rendering:
        """Raises RequestError. Any number may wait: whoever admits requests bounds them."""
        async with self._free:
            return await self._render(_encoded(Render(chat, self._limit_s * _ALARM_RATIO)))

    async def close(self) -> None:
        """End all processes; one that is at work ends when its job does."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().kill()

    async def _render(self, job: bytes) -> Rendering:
        process = self._take_idle() or await self._loaded()
        is_sound = False
        try:
            answer = await process.ask(job, self._limit_s)
            is_sound = True
        except TimeoutError as error:
            raise RequestError(f"chat template took longer than {self._limit_s:g} s", param="messages") from error
        except _Gone as error:
            raise RequestError("chat template used too much memory or crashed", param="messages") from error
        finally:
            if is_sound and not self._is_closed:
                self._idle.append(process)
            else:
                await process.kill()
        if isinstance(answer, Refused):
            raise RequestError(answer.message, param=answer.param, hint=answer.hint)
        assert isinstance(answer, Rendered), type(answer)
        return answer.rendering

    def _take_idle(self) -> _Process | None:
        """One that still lives: what killed another while it was idle is not the next job's fault."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
        return None

    async def _loaded(self) -> _Process:
        process = await _Process.spawn()
        is_sound = False
        try:
            answer = await process.ask(self._load, _START_LIMIT_S)
            is_sound = isinstance(answer, Loaded)
        except (TimeoutError, _Gone) as error:
            raise CheckpointError(
                "chat template could not be loaded within its limits", hint="give another one with --chat-template"
            ) from error
        finally:
            if not is_sound:
                await process.kill()
        if isinstance(answer, Refused):
            raise CheckpointError(answer.message, hint=answer.hint)
        return process


def _encoded(job: Render) -> bytes:
    try:
        return msgspec.msgpack.encode(job)
    except (UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise RequestError(
            "messages hold what cannot be rendered", param="messages", hint="no lone surrogates, no integers of 65 bits"
        ) from error
