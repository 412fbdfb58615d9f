import asyncio
import logging
from collections.abc import Callable
from typing import cast

import pytest
from uvicorn.server import ServerState

from dayzero.core.events import FinishReason
from dayzero.gateway.config import Limits
from dayzero.gateway.protocol import BoundedProtocol
from dayzero.gateway.server import create_server
from tests.gateway.sockets import connection, read_until, request
from tests.gateway.stand import run_live, says, stand


def test_a_request_with_a_huge_header_is_refused_and_the_server_goes_on() -> None:
    """CVE-2025-48956: headers were gathered without a bound."""
    this = stand()
    with run_live(this) as address:
        for head in (b"GET /health HTTP/1.1\r\nx-long: ", b"GET /", b"GET /health HTTP/1.1\r\n"):
            with connection(address) as client:
                client.sendall(head)
                filler = b"x: y\r\n" * 10_000 if head.endswith(b"\r\n") else b"x" * 60_000
                for _ in range(170):
                    client.sendall(filler)  # 10 MB in all
                assert b" 431 " in read_until(client, b"\r\n\r\n")
        with connection(address) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"200 OK" in read_until(client, b"ok")


def test_a_trailer_that_grows_is_refused_too() -> None:
    with run_live(stand()) as address, connection(address) as client:
        client.sendall(
            b"POST /tokenize HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-long: "
        )
        for _ in range(10):
            client.sendall(b"x" * 60_000)
        assert b" 431 " in read_until(client, b" 431 ")


@pytest.mark.parametrize("head", [b"", b"GET /health HTTP/1.1\r\nhost: "])
def test_a_head_that_never_ends_is_given_up(head: bytes) -> None:
    with run_live(stand(limits=Limits(head_read_s=0.1))) as address, connection(address) as client:
        client.sendall(head)
        assert client.recv(1) == b""


def test_a_second_request_has_its_own_time(capfd: pytest.CaptureFixture[str]) -> None:
    with run_live(stand(limits=Limits(head_read_s=0.1))) as address, connection(address) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in read_until(client, b"ok")
        client.sendall(b"GET /health HTTP/1.1\r\n")
        assert client.recv(1) == b""
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_does_not_read_loses_its_connection_and_its_request(streams: bool) -> None:
    this = stand(says("x" * 60_000, None if streams else FinishReason.LENGTH, per_event=2000), write_timeout_s=0.2)
    # long events fill the buffers soon
    body = {"prompt": "hi", "stream": streams, "logprobs": 20, "max_tokens": 500}
    with run_live(this) as address, connection(address) as client, connection(address) as other:
        client.sendall(request(body, path="/v1/completions"))
        assert client.recv(12) == b"HTTP/1.1 200"
        assert this.server is not None
        connections = []
        while connections[-1:] != [1]:
            other.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            read_until(other, b"ok")
            connections.append(len(this.server.server_state.connections))
        assert connections[0] == 2
    assert this.replica.running == {}


class Timer:
    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Time:
    """As much of a loop as a protocol needs of it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self.now_s + delay_s, callback))
        return self._timers[-1]

    def pass_until(self, now_s: float) -> None:
        while due := [timer for timer in self._timers if timer.at_s <= now_s]:
            timer = min(due, key=lambda timer: timer.at_s)
            self._timers.remove(timer)
            self.now_s = timer.at_s
            if not timer.is_cancelled:
                timer.callback()
        self.now_s = now_s


class Line(asyncio.Transport):
    """A transport whose client takes what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_bytes = 0
        self.is_cut = False
        self._is_closing = False

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self.is_cut = True


@pytest.mark.parametrize("state", ["full", "closing", "open"])
@pytest.mark.parametrize("taken_bytes", [0, 1])
def test_only_a_client_that_takes_nothing_of_what_waits_is_cut(state: str, taken_bytes: int) -> None:
    this = stand(write_timeout_s=60.0, limits=Limits(head_read_s=10**6))
    config = create_server(this.gateway, this.config).config
    config.load()
    time, line = Time(), Line()
    protocol = cast(type[BoundedProtocol], config.http_protocol_class)(
        config=config, server_state=ServerState(), app_state={}, _loop=cast("asyncio.AbstractEventLoop", time)
    )
    protocol.connection_made(line)
    time.pass_until(1000.0)
    line.waiting_bytes = 10**6
    if state == "full":
        protocol.pause_writing()
    elif state == "closing":
        line.close()
    time.pass_until(1050.0)
    assert not line.is_cut
    for now_s in range(1051, 1200):
        line.waiting_bytes -= taken_bytes
        time.pass_until(now_s)
    assert line.is_cut == (state != "open" and taken_bytes == 0)
    protocol.connection_lost(None)


def test_a_client_that_leaves_others_queued_behind_frees_its_request(caplog: pytest.LogCaptureFixture) -> None:
    this = stand(says("endless", None), keep_alive_s=0.1)
    body = {"messages": [{"role": "user", "content": "hi"}]}
    with run_live(this) as address:
        for streams in (True, False):
            with connection(address) as client:
                client.sendall(request({**body, "stream": streams}) * 3)
                if streams:
                    read_until(client, b"data: ")
        with connection(address) as other:
            while this.gateway.admission.in_flight or len(this.replica.submits) < 2:
                other.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
                read_until(other, b"ok")
    assert this.replica.running == {}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02", b"FOO / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\na\0: b\r\n\r\n"]
)
def test_what_is_no_http_is_a_400_in_our_form(garbage: bytes) -> None:
    with run_live(stand()) as address, connection(address) as client:
        client.sendall(garbage)
        answer = read_until(client, b"never")
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith(b'"type":"invalid_request_error","param":null,"code":null}}')


def test_garbage_behind_a_request_is_not_answered_inside_its_answer() -> None:
    this = stand(says("endless", None))
    body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
    with run_live(this) as address, connection(address) as client:
        client.sendall(request(body))
        read_until(client, b"data: ")
        client.sendall(b"\x16\x03\x01\x02")
        assert b"400" not in read_until(client, b"never")
    assert this.replica.running == {}


def test_a_wish_for_another_protocol_is_ignored_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with run_live(stand()) as address, connection(address) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
        assert b"200 OK" in read_until(client, b"ok")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
