"""An engine as a child process: started, spoken to, watched and ended.

Light on imports: a child is spawned before the server's libraries are loaded, so that both load at the same time.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Self

import msgspec

from dayzero.core.events import RequestId, TokenEvent
from dayzero.core.spec import EngineConfig, EngineSpec
from dayzero.errors import CapacityError, CheckpointError, ConfigError, DayzeroError, InternalError, ReplicaLost
from dayzero.fleet.mailbox import Mailbox
from dayzero.wire.async_channel import TMPDIR_HINT, AsyncChannel
from dayzero.wire.channel import ChannelClosed
from dayzero.wire.messages import (
    PROTOCOL_VERSION,
    Abort,
    Fatal,
    FromEngine,
    Hello,
    Load,
    Loading,
    Ready,
    Shutdown,
    Start,
    StepReport,
    Submit,
    ToEngine,
    Tokenizer,
)

log = logging.getLogger(__name__)

ENGINE_COMMAND = (sys.executable, "-m", "dayzero.engine.process")
LAST_WORDS_S = 0.05  # a dead engine's last messages are on their way through the socket; nobody else sends


class EngineProcess:
    """A child and the private socket to it. Needs no event loop.

    The child is the leader of a session, so that Ctrl-C in a terminal reaches only its parent, which drains first. It
    exits by itself when its parent is gone. What it prints goes to stderr.

    Raises ConfigError if there is no place for the socket.
    """

    def __init__(self, config: EngineConfig, *, command: Sequence[str] = ENGINE_COMMAND) -> None:
        self.config = config
        self._folder = _private_folder()
        endpoint = f"ipc://{self._folder}/engine"
        early = ["--import-torch"] if config.fake is None else []
        try:
            self.channel = AsyncChannel(endpoint)
            self._child = subprocess.Popen(
                [*command, *early, endpoint, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def watch(self, on_exit: Callable[[int], None]) -> None:
        """Call `on_exit` with the return code, from another thread, as soon as the child is gone."""
        threading.Thread(target=lambda: on_exit(self._child.wait()), name="engine-exit", daemon=True).start()

    def hide(self) -> None:
        """Remove the socket from the file system: both ends hold it. So nothing is left, however this process ends."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        """Kill the child if it still runs, and remove the socket. Idempotent."""
        self._child.kill()
        self._child.wait()
        self.channel.close()
        self.hide()


class ProcessReplica:
    """A Replica that lives in a child process.

    When the child dies, each request in flight ends with ReplicaLost, once, and `is_alive` is False from then on.
    """

    def __init__(self, process: EngineProcess, on_loading: Callable[[Loading], None]) -> None:
        self._process = process
        self._on_loading = on_loading
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[EngineSpec] = self._loop.create_future()
        self._exited = asyncio.Event()
        self._mailboxes: dict[RequestId, Mailbox] = {}
        self._unsent_aborts: deque[Abort] = deque()  # at most two for each request that is with the engine
        self._load = Load()
        self._lost: InternalError | None = None
        self._write_tokenizer: Callable[[], str] | None = None
        process.channel.start(self._on_message, self._on_broken)
        process.watch(self._on_exit_in_thread)

    @classmethod
    async def start(
        cls, process: EngineProcess, *, on_loading: Callable[[Loading], None], timeout_s: float = 600.0
    ) -> Self:
        """Wait until the engine takes requests.

        Raises what keeps it from starting: ConfigError or CheckpointError if the engine says so, else InternalError.
        The child is gone then.
        """
        replica = cls(process, on_loading)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(replica._ready)
        except TimeoutError:
            await replica.close(deadline_s=0.0)
            raise InternalError(f"the engine did not start within {timeout_s:g} s") from None
        except BaseException:
            await replica.close(deadline_s=0.0)
            raise
        return replica

    @property
    def spec(self) -> EngineSpec:
        return self._ready.result()

    @property
    def load(self) -> Load:
        return self._load

    @property
    def is_alive(self) -> bool:
        return self._lost is None

    @property
    def num_requests(self) -> int:
        """Requests in flight."""
        return len(self._mailboxes)

    async def generate(self, submit: Submit) -> AsyncIterator[TokenEvent]:
        """See `Replica.generate`."""
        assert submit.request_id not in self._mailboxes, submit.request_id
        if submit.constraint is not None and submit.constraint.grammar:
            self._share_tokenizer()
        if not self._send(submit):
            raise CapacityError("the engine has too much to read")
        mailbox = self._mailboxes[submit.request_id] = Mailbox()
        try:
            while True:
                event = await mailbox.take()
                yield event
                if event.finish is not None:
                    return
        finally:
            del self._mailboxes[submit.request_id]
            if not mailbox.is_finished:
                self._abort(Abort(submit.request_id))

    async def abort(self, request_id: RequestId, num_kept: int | None = None) -> None:
        """See `Replica.abort`."""
        if request_id in self._mailboxes:
            self._abort(Abort(request_id, num_kept))

    async def close(self, *, deadline_s: float = 5.0) -> None:
        """End the child: ask it, at the deadline kill it. Idempotent."""
        if self._lost is None:
            with contextlib.suppress(ReplicaLost):
                self._send(Shutdown())
            self._lose("the engine was shut down")
        try:
            async with asyncio.timeout(deadline_s):
                await self._exited.wait()
        except TimeoutError:
            self._process.kill()
        await self._exited.wait()
        self._process.close()

    def provide_tokenizer(self, write: Callable[[], str]) -> None:
        """What makes the text of the tokenizer that the engine needs for grammars; called before the first."""
        self._write_tokenizer = write

    def _share_tokenizer(self) -> None:
        """Once."""
        write, self._write_tokenizer = self._write_tokenizer, None
        if write is not None and not self._send(Tokenizer(write())):
            self._write_tokenizer = write
            raise CapacityError("the engine has too much to read")

    def _send(self, message: ToEngine) -> bool:
        """Pass a message on. False: the engine has not read for long, and this one must wait. Raises ReplicaLost."""
        if self._lost is not None:
            raise ReplicaLost(self._lost.message)
        try:
            return self._process.channel.send(message)
        except ChannelClosed as error:
            self._on_broken(error)
            raise ReplicaLost(error.message) from None

    def _abort(self, abort: Abort) -> None:
        """Tell the engine now, or as soon as it reads again; a lost one need not be told."""
        self._unsent_aborts.append(abort)
        self._send_aborts()

    def _send_aborts(self) -> None:
        with contextlib.suppress(ReplicaLost):
            while self._unsent_aborts and self._send(self._unsent_aborts[0]):
                self._unsent_aborts.popleft()

    def _on_message(self, message: FromEngine) -> None:
        match message:
            case StepReport():
                self._load = message.load
                for event in message.events:
                    mailbox = self._mailboxes.get(event.request_id)
                    if mailbox is not None:  # else its reader has left, and the abort is under way
                        mailbox.put(event)
                self._send_aborts()
            case Hello():
                self._on_hello(message)
            case Loading():
                self._on_loading(message)
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(message.spec)
            case Fatal():
                self._on_fatal(message)

    def _on_hello(self, message: Hello) -> None:
        self._process.hide()
        if message.protocol != PROTOCOL_VERSION:
            self._on_broken(ChannelClosed(f"engine of another protocol: {message.protocol}"))
            return
        self._send(Start(self._process.config))

    def _on_fatal(self, message: Fatal) -> None:
        if self._ready.done():
            log.error("engine failed", extra={"pid": self._process.pid, "exit_code": message.exit_code})
        else:
            self._fail_start(_error_of(message))  # whoever waits for the start tells it
        self._lose("the engine failed")

    def _on_broken(self, error: ChannelClosed) -> None:
        """The child cannot be spoken to, so it is of no use."""
        log.error("engine channel broken", extra={"pid": self._process.pid, "reason": error.message})
        self._process.kill()
        self._lose(error.message)

    def _on_exit_in_thread(self, code: int) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self._on_exit, code)

    def _on_exit(self, code: int) -> None:
        self._exited.set()
        if self._lost is None:
            self._loop.call_later(LAST_WORDS_S, self._on_silence, code)

    def _on_silence(self, code: int) -> None:
        if self._lost is None:
            log.error("engine process died", extra={"pid": self._process.pid, "code": code})
            self._lose(f"the engine process died: {_describe(code)}")

    def _lose(self, reason: str) -> None:
        """End every request in flight. Once; later reasons are consequences of the first."""
        if self._lost is not None:
            return
        self._lost = ReplicaLost(reason)
        self._load = msgspec.structs.replace(self._load, running=0, waiting=0, kv_blocks_used=0, endpoints=())
        self._fail_start(InternalError(reason))
        for mailbox in self._mailboxes.values():
            mailbox.fail(ReplicaLost(reason))

    def _fail_start(self, error: DayzeroError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # retrieved: whoever waits gets it, and nobody waiting is no leak


def _private_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="dayzero-"))  # mode 0700
    except OSError as error:
        raise ConfigError(f"no folder for temporary files: {error.strerror}", hint=TMPDIR_HINT) from None


def _error_of(message: Fatal) -> DayzeroError:
    """The error that the engine would have raised here."""
    for kind in (ConfigError, CheckpointError):
        if message.exit_code == kind.exit_code:
            return kind(message.message, hint=message.hint)
    return InternalError(message.message, hint=message.hint)


def _describe(code: int) -> str:
    """A return code of `Popen` in words."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
