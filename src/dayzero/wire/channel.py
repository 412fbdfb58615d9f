"""The engine's end of the wire: a blocking socket for the step loop.

One PAIR socket over a Unix socket in a private directory: the gateway binds, the engine connects. Messages are the
tagged structs of `messages`, as MessagePack, one frame each. Both directions are bounded by a high-water mark.

Knows nothing of who runs at the other end, nor whether it is alive: the engine watches its parent itself.
"""

from types import TracebackType
from typing import Self

import msgspec
import zmq

from dayzero.errors import InternalError
from dayzero.wire.messages import FromEngine, ToEngine

# One step is one message, so this is many steps of a gateway that does not read. A full queue blocks the engine, which
# is what a bound is for.
HIGH_WATER_MARK_MESSAGES = 4096
MAX_MESSAGE_BYTES = 256 * 2**20  # prompt log-probs of a long context, with twenty alternatives for each token


class ChannelClosed(InternalError):
    """The other end is gone, does not read, or sent what is not a message. Nothing more passes."""


class Channel:
    """Sends what an engine says and receives what it is told. For one thread.

    endpoint   what the gateway has bound, such as `ipc:///tmp/.../engine`
    """

    def __init__(self, endpoint: str, *, send_timeout_s: float = 30.0) -> None:
        self._context = zmq.Context()
        self._socket = open_socket(self._context)
        self._socket.setsockopt(zmq.SNDTIMEO, round(send_timeout_s * 1000))
        self._socket.connect(endpoint)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToEngine)

    def send(self, message: FromEngine) -> None:
        """Queue a message. Blocks while the queue is full; after the time limit the other end counts as gone."""
        self._check_open()
        data = self._encoder.encode(message)
        if len(data) > MAX_MESSAGE_BYTES:  # the other end would drop the connection without a word
            self.close()
            raise ChannelClosed(f"channel closed: a message of {len(data)} bytes (limit: {MAX_MESSAGE_BYTES})")
        try:
            self._socket.send(data)
        except zmq.Again:
            self.close()
            raise ChannelClosed("channel closed: the gateway does not read") from None

    def receive(self, timeout_s: float) -> ToEngine | None:
        """Return the next message, waiting at most `timeout_s` for it; None if there was none."""
        self._check_open()
        if not self._socket.poll(max(0, round(timeout_s * 1000))):
            return None
        return self._receive_waiting()

    def drain(self) -> list[ToEngine]:
        """Return all messages that wait, without blocking."""
        self._check_open()
        messages: list[ToEngine] = []
        while (message := self._receive_waiting()) is not None:
            messages.append(message)
        return messages

    def close(self, *, linger_s: float = 1.0) -> None:
        """Give queued messages `linger_s` to leave, then close. Idempotent."""
        self._context.destroy(linger=round(linger_s * 1000))

    def _receive_waiting(self) -> ToEngine | None:
        try:
            return self._decoder.decode(self._socket.recv(zmq.NOBLOCK))
        except zmq.Again:
            return None
        except msgspec.MsgspecError:
            self.close()
            raise ChannelClosed("channel closed: the gateway sent what is not a message") from None

    def _check_open(self) -> None:
        if self._socket.closed:
            raise ChannelClosed("channel closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_socket(context: "zmq.Context[zmq.Socket[bytes]]") -> "zmq.Socket[bytes]":
    """A PAIR socket with the bounds of either end."""
    socket = context.socket(zmq.PAIR)
    socket.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK_MESSAGES)
    socket.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK_MESSAGES)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    return socket
