import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest

from dayzero.errors import ConfigError
from dayzero.gateway.config import GatewayConfig, Limits
from dayzero.gateway.server import bind
from tests.gateway.stand import run_live, says, stand

SERVER = """
import asyncio
from dayzero.gateway.server import bind, serve
from tests.gateway.stand import says, stand

this = stand(says("endless", None), drain_timeout_s={drain_timeout_s})
listener = bind(this.config.__class__(served_model_name="tiny", port=0))
started = lambda: print(listener.getsockname()[1], flush=True)
asyncio.run(serve(this.gateway, this.config, listener, on_started=started))
print("ended", flush=True)
"""


def request(body: object, *, path: str = "/v1/chat/completions") -> bytes:
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (path.encode(), len(data), data)


CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


@contextlib.contextmanager
def connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=30) as client:
        yield client


def read_until(client: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        part = client.recv(65536)
        if not part:
            break
        data += part
    return data


def test_a_port_in_use_is_a_config_error_that_says_what_to_do() -> None:
    with contextlib.closing(bind(GatewayConfig(served_model_name="tiny", port=0))) as taken:
        taken.listen()
        with pytest.raises(ConfigError, match=r"cannot listen on 127\.0\.0\.1.*\nhint: .*--port"):
            bind(GatewayConfig(served_model_name="tiny", port=taken.getsockname()[1]))


def test_a_host_that_is_none_is_a_config_error() -> None:
    with pytest.raises(ConfigError):
        bind(GatewayConfig(served_model_name="tiny", host="256.0.0.1.x"))


def test_a_client_that_hangs_up_frees_its_request() -> None:
    this = stand(says("endless", None))
    with run_live(this) as address:
        for body in (CHAT, {**CHAT, "stream": False}, {**CHAT, "n": 4}):
            with connection(address) as client:
                client.sendall(request(body))
                if body["stream"]:
                    assert b"200 OK" in read_until(client, b"data: ")
        with connection(address) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            read_until(client, b"never")
    assert this.replica.running == {}
    assert this.gateway.admission.in_flight == 0


def test_a_request_with_a_huge_header_is_refused_and_the_server_goes_on() -> None:
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


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_of_fifty_megabytes_is_a_413_and_memory_stays_flat(announced: bool) -> None:
    part = b"x" * 2**20
    with run_live(stand()) as address, connection(address) as client:
        before = resident_kib()
        framing = b"content-length: %d" % (50 * 2**20) if announced else b"transfer-encoding: chunked"
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\n%s\r\n\r\n" % framing)
        for _ in range(50):
            client.sendall(part if announced else b"%x\r\n%s\r\n" % (len(part), part))
        assert b" 413 " in read_until(client, b"request_too_large")
        assert resident_kib() - before < 20 * 1024


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError


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


def test_a_client_that_does_not_read_loses_its_connection_and_its_request() -> None:
    this = stand(says("x" * 60_000, None, per_event=2000), keep_alive_s=0.1, write_timeout_s=0.2)
    body = {"prompt": "hi", "stream": True, "logprobs": 20, "max_tokens": 500}  # long events fill the buffers soon
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


def test_a_body_that_fits_is_read_whole_however_it_comes() -> None:
    with run_live(stand()) as address, connection(address) as client:
        text = "x" * 400
        data = json.dumps({"prompt": text}).encode()
        client.sendall(b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(data))
        for byte in data:
            client.sendall(bytes([byte]))
        assert b'"count":400' in read_until(client, b"}")


@contextlib.asynccontextmanager
async def server(drain_timeout_s: float) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    code = SERVER.format(drain_timeout_s=drain_timeout_s)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert child.stdout is not None
        yield child, int(await child.stdout.readline())
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_refuses_what_is_new_and_ends_with_zero(number: signal.Signals) -> None:
    async def scenario() -> None:
        async with server(30.0) as (child, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(CHAT))
            await reader.readuntil(b"data: ")
            child.send_signal(number)
            status = b""
            while b" 503 " not in status:  # the signal may take a moment to arrive
                late_reader, late_writer = await asyncio.open_connection("127.0.0.1", port)
                late_writer.write(b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n")
                status = await late_reader.readline()
                late_writer.close()
            refused_reader, refused_writer = await asyncio.open_connection("127.0.0.1", port)
            refused_writer.write(request(CHAT))
            assert b" 503 " in await refused_reader.readline()
            assert b"retry-after" in await refused_reader.readuntil(b"\r\n\r\n")
            refused_writer.close()
            writer.close()  # the last stream ends
            assert await child.wait() == 0

    asyncio.run(bounded(scenario()))


def test_a_stream_that_outlasts_the_drain_is_cut_off() -> None:
    async def scenario() -> None:
        async with server(0.05) as (child, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(CHAT))
            await reader.readuntil(b"data: ")
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == 0
            writer.close()

    asyncio.run(bounded(scenario()))


def test_a_second_signal_cuts_the_drain_short() -> None:
    async def scenario() -> None:
        async with server(600.0) as (child, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(CHAT))
            await reader.readuntil(b"data: ")
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(ConnectionError):
                while True:
                    ready_reader, ready_writer = await asyncio.open_connection("127.0.0.1", port)
                    ready_writer.write(b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n")
                    line = await ready_reader.readline()
                    ready_writer.close()
                    if b" 503 " in line:
                        break
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == 0
            writer.close()

    asyncio.run(bounded(scenario()))


async def bounded(scenario: Awaitable[None]) -> None:
    async with asyncio.timeout(60):
        await scenario
