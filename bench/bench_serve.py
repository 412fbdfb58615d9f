"""The server as a client sees it, all on this machine.

python bench/bench_serve.py [--repeats 5] [--only wire|start|memory]

wire     output tokens/s of 32 streams with a model without weights: engine loop, wire, detokenizer, SSE, HTTP and
         the client share the cores
start    seconds from starting the process to the first token of its first answer, the model in the page cache
memory   PSS of the gateway, the engine and the template process after 32 requests, and what it is made of
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from family import family
from record import record

from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint

STREAMS, OUT = 32, 256
FAKE_SERVER = Path(__file__).parent / "fake_server.py"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def server(*command: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server on a free port, from its start to its end."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def wait_until_ready(url: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.01)


async def stream(session: aiohttp.ClientSession, url: str, number: int, max_tokens: int) -> tuple[int, int]:
    """Read one stream to its end; returns its output tokens, as the server counted them, and its chunks."""
    body = {
        "prompt": [1 + (number * 7919 + i) % 40000 for i in range(32)],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    last, chunks = b"", 0
    async with session.post(f"{url}/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            chunks += chunk.count(b"data: ")
            last = (last + chunk)[-4096:]
    usage = next(line for line in reversed(last.split(b"\n\n")) if b'"completion_tokens"' in line)
    return int(json.loads(usage.removeprefix(b"data: "))["usage"]["completion_tokens"]), chunks


async def throughput(url: str, streams: int, out: int, rounds: int) -> tuple[float, float]:
    """Output tokens and chunks per second of a closed loop of streams. Tokens that wait share a chunk."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def worker(worker_number: int) -> list[tuple[int, int]]:
            numbers = range(worker_number * 1000, worker_number * 1000 + rounds)
            return [await stream(session, url, number, out) for number in numbers]

        start_s = time.perf_counter()
        counts = [count for some in await asyncio.gather(*(worker(i) for i in range(streams))) for count in some]
        seconds = time.perf_counter() - start_s
        return sum(tokens for tokens, _ in counts) / seconds, sum(chunks for _, chunks in counts) / seconds


def first_token_s() -> float:
    """A whole start: process, engine, weights, one answer."""
    start_s = time.perf_counter()
    with server("-m", "dayzero.cli.main", "serve") as (url, _):
        wait_until_ready(url)
        asyncio.run(throughput(url, streams=1, out=1, rounds=1))
        return time.perf_counter() - start_s


def pss_bytes(pid: int) -> int:
    """0: it has ended meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def memory() -> dict[str, float]:
    """MiB after 32 requests of a real model with a KV pool of 256 MiB, all of which counts as used."""
    with server("-m", "dayzero.cli.main", "serve", "--kv-memory", "0.25") as (url, process):
        wait_until_ready(url)
        asyncio.run(throughput(url, streams=STREAMS, out=64, rounds=1))
        sizes = {"gateway": pss_bytes(process.pid)}
        sizes["all"] = sum(pss_bytes(pid) for pid in family(process.pid))
        weights = open_checkpoint(locate(None, offline=True, progress=lambda *_: None)).tensors.values()
        sizes["weights"] = sum(len(tensor.data) for tensor in weights)  # as they are stored
        return {name: size / 2**20 for name, size in sizes.items()}


def record_wire(repeats: int) -> None:
    with server(str(FAKE_SERVER)) as (url, _):
        wait_until_ready(url)
        asyncio.run(throughput(url, STREAMS, OUT, rounds=1))
        rates = [asyncio.run(throughput(url, STREAMS, OUT, rounds=4)) for _ in range(repeats)]
    record(
        "wire",
        {"dayzero": [tokens for tokens, _ in rates], "chunks": [chunks for _, chunks in rates]},
        unit="tokens/s, chunks/s",
        settings={"streams": STREAMS, "output_tokens": OUT},
    )


def record_start(repeats: int) -> None:
    first_token_s()  # into the page cache
    starts = [first_token_s() for _ in range(repeats)]
    record("start", {"dayzero": starts}, unit="s", settings={"model": "embedded", "page_cache": "warm"})


def record_memory(repeats: int) -> None:
    runs = [memory() for _ in range(repeats)]
    record(
        "memory",
        {name: [run[name] for run in runs] for name in runs[0]},
        unit="MiB PSS",
        settings={"model": "embedded", "kv_memory_mib": 256, "cores": os.cpu_count()},
    )


MEASURES = {"wire": record_wire, "start": record_start, "memory": record_memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=MEASURES, help="default: all")
    args = parser.parse_args()
    for measure in (args.only,) if args.only else MEASURES:
        MEASURES[measure](args.repeats)


if __name__ == "__main__":
    main()
