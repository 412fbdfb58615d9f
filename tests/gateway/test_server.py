import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from dayzero.errors import ConfigError
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.server import bind
from tests.gateway.sockets import connection, read_until, request
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


CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


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


def test_what_outlasts_the_drain_is_told_so() -> None:
    async def scenario() -> None:
        async with server(0.05) as (child, port):
            streaming, stream_writer = await asyncio.open_connection("127.0.0.1", port)
            stream_writer.write(request(CHAT))
            await streaming.readuntil(b"data: ")
            whole, whole_writer = await asyncio.open_connection("127.0.0.1", port)
            whole_writer.write(request({**CHAT, "stream": False}))
            unread, unread_writer = await asyncio.open_connection("127.0.0.1", port)
            unread_writer.write(request(CHAT)[:-1])
            child.send_signal(signal.SIGTERM)
            stream = await streaming.read()
            assert b'"code":"draining"' in stream
            assert b"data: [DONE]\n\n\r\n0\r\n\r\n" in stream
            for reader in (whole, unread):
                answer = await reader.read()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 5\r\n" in answer
            assert await child.wait() == 0
            for writer in (stream_writer, whole_writer, unread_writer):
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
