"""The gateway's end of the wire: callbacks on an asyncio loop, no task and no future per message.

zmq's file descriptor is edge-triggered and says only "look again": after it fires, and after every send, the socket
has to be read until it is empty, or a message may wait forever.
"""

import asyncio
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq

from dayzero.errors import ConfigError
from dayzero.wire.channel import ChannelClosed, open_socket
from dayzero.wire.messages import FromEngine, ToEngine

READ_BATCH_MESSAGES = 64  # then other callbacks of the loop get a turn
MAX_SOCKET_PATH_BYTES = 100  # Unix allows about 104 to 108
TMPDIR_HINT = "set TMPDIR to another folder, with a short name and some room"


class AsyncChannel:
    """Binds at construction, before any loop runs; `start` attaches it to the running loop.

    Messages that came before `start` are not lost. After `on_broken` was called, or `close`, nothing more is
    delivered.
    """

    def __init__(self, endpoint: str) -> None:
        check_private(endpoint)
        self._context = zmq.Context()
        self._socket = open_socket(self._context)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise ConfigError(f"no socket at {endpoint}: {error.strerror}", hint=TMPDIR_HINT) from None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(FromEngine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_message: Callable[[FromEngine], None] = _ignore
        self._on_broken: Callable[[ChannelClosed], None] = _ignore

    def start(self, on_message: Callable[[FromEngine], None], on_broken: Callable[[ChannelClosed], None]) -> None:
        """Deliver messages on the running loop. `on_broken` is called at most once, in place of a bad message."""
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_broken = on_broken
        self._loop.add_reader(self._socket.fileno(), self._read)
        self._loop.call_soon(self._read)

    def send(self, message: ToEngine) -> bool:
        """Queue a message without waiting. False: the queue is full, or no engine has connected yet."""
        if self._socket.closed:
            raise ChannelClosed("channel closed")
        try:
            self._socket.send(self._encoder.encode(message), zmq.NOBLOCK)
            is_queued = True
        except zmq.Again:
            is_queued = False
        if self._loop is not None and self._socket.poll(0):
            self._loop.call_soon(self._read)
        return is_queued

    def flush(self) -> None:
        """Deliver what waits, now."""
        while self._read():
            pass

    def close(self, *, linger_s: float = 0.0) -> None:
        """Stop delivering; give queued messages `linger_s` to leave. Idempotent."""
        if self._socket.closed:
            return
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
        self._context.destroy(linger=round(linger_s * 1000))

    def _read(self) -> bool:
        """Deliver up to READ_BATCH_MESSAGES; True if more may wait, and then another turn is scheduled."""
        for _ in range(READ_BATCH_MESSAGES):
            if self._socket.closed:  # also by a callback
                return False
            try:
                message = self._decoder.decode(self._socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return False
            except msgspec.MsgspecError:
                self.close()
                self._on_broken(ChannelClosed("channel closed: the engine sent what is not a message"))
                return False
            self._on_message(message)
        assert self._loop is not None
        self._loop.call_soon(self._read)
        return True


def check_private(endpoint: str) -> None:
    """Refuse a socket that others could reach or that the system could not name."""
    path = Path(endpoint.removeprefix("ipc://"))
    if len(bytes(path)) > MAX_SOCKET_PATH_BYTES:
        raise ConfigError(f"socket path too long: {path}", hint=TMPDIR_HINT)
    mode = path.parent.stat().st_mode
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"socket folder open to others: {path.parent}", hint="it must have mode 0700")


def _ignore(_: object) -> None:
    """Before `start`, nothing is read."""
