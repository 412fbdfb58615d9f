from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from dayzero.wire.channel import Channel, ChannelClosed
from dayzero.wire.messages import Abort, Fatal, Hello, Shutdown


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator["zmq.Socket[bytes]"]:
    """A bare socket where the gateway would be."""
    with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
        socket.bind(f"ipc://{tmp_path}/engine")
        yield socket


@pytest.fixture
def channel(gateway: "zmq.Socket[bytes]") -> Iterator[Channel]:
    with Channel(gateway.last_endpoint.decode()) as channel:
        yield channel


def test_a_message_sent_arrives_as_one_frame(channel: Channel, gateway: "zmq.Socket[bytes]") -> None:
    channel.send(Hello(protocol=1))
    assert b"hello" in gateway.recv()


def test_receive_returns_none_when_nothing_came(channel: Channel) -> None:
    assert channel.receive(0.0) is None


def test_receive_waits_for_a_message(channel: Channel, gateway: "zmq.Socket[bytes]") -> None:
    gateway.send(_encode(Abort(5, num_kept=3)))
    assert channel.receive(5.0) == Abort(5, num_kept=3)


def test_drain_returns_all_that_waits_in_order(channel: Channel, gateway: "zmq.Socket[bytes]") -> None:
    for message in (Abort(1), Abort(2), Shutdown()):
        gateway.send(_encode(message))
    received = [channel.receive(5.0)]
    while len(received) < 3:
        received += channel.drain()
    assert received == [Abort(1), Abort(2), Shutdown()]
    assert channel.drain() == []


def test_what_is_not_a_message_closes_the_channel(channel: Channel, gateway: "zmq.Socket[bytes]") -> None:
    gateway.send(b"\xc1 nonsense")
    with pytest.raises(ChannelClosed, match="not a message"):
        channel.receive(5.0)
    with pytest.raises(ChannelClosed):
        channel.send(Hello(protocol=1))


def test_a_message_of_the_other_direction_closes_the_channel(channel: Channel, gateway: "zmq.Socket[bytes]") -> None:
    gateway.send(_encode(Hello(protocol=1)))
    with pytest.raises(ChannelClosed):
        channel.receive(5.0)


def test_send_to_nobody_gives_up_after_its_time_limit(tmp_path: Path) -> None:
    def send_many(channel: Channel) -> None:
        for _ in range(10_000):
            channel.send(Hello(protocol=1))

    with Channel(f"ipc://{tmp_path}/nobody", send_timeout_s=0.01) as channel, pytest.raises(ChannelClosed):
        send_many(channel)


def test_a_message_that_is_too_long_closes_the_channel(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayzero.wire.channel.MAX_MESSAGE_BYTES", 100)
    with pytest.raises(ChannelClosed, match=r"of 1\d\d bytes \(limit: 100\)"):
        channel.send(Fatal("x" * 100, None, 1))


def test_close_is_idempotent(channel: Channel) -> None:
    channel.close()
    channel.close()


def _encode(message: object) -> bytes:
    return msgspec.msgpack.encode(message)
