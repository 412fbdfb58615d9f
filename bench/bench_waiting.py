"""How long the engine's threads should wait awake for the next step, by what HTTP clients on the same cores see.

python bench/bench_waiting.py [--repeats 10] [--spins 0,20,200,1000] [--concurrency 1,8,32] [--precision auto]

A repeat starts a server for each wait, in microseconds, one after the other, and loads it with each number of streams;
the next repeat begins with another one. Output tokens/s of a closed loop and the median TTFT of its streams, on stdout;
what they are over those of the wait that engines have, on stderr. That wait is measured twice: how far the second is
from the first is the noise. About seven minutes on two quiet cores. Decision 0010.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from bench_serve import server, wait_until_ready
from record import record

from dayzero.kernels.native.backend import SPIN_US

SERVER = str(Path(__file__).parent / "waiting_server.py")
BASE = f"{SPIN_US} us"
OUTPUT_TOKENS = {1: 256, 8: 128, 32: 64}  # of a stream: one to two seconds each
PROMPT_TOKENS = 32

Seen = tuple[float, float]  # output tokens/s, median TTFT in seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--spins", type=numbers, default=[0, 20, 200, 1000], metavar="US,...")
    parser.add_argument("--concurrency", type=numbers, default=list(OUTPUT_TOKENS), metavar="STREAMS,...")
    parser.add_argument("--precision", default="auto")
    args = parser.parse_args()
    spins = {BASE: SPIN_US, f"{BASE}, again": SPIN_US, **{f"{spin} us": spin for spin in args.spins}}
    seen = measure(spins, args.concurrency, args.precision, args.repeats)
    for streams in args.concurrency:
        for number, (measured, unit) in enumerate((("rate", "tokens/s"), ("ttft", "s"))):
            samples = {name: [one[number] for one in seen[name, streams]] for name in spins}
            settings = {"streams": streams, "precision": args.precision, "output_tokens": output_tokens(streams)}
            record(f"waiting {measured}", samples, unit=unit, settings=settings)
            for name, values in samples.items():
                ratios = [a / b for a, b in zip(values, samples[BASE], strict=True)]
                sys.stderr.write(f"{streams:3} streams  {measured:4}  {name:12} over {BASE}: {spread(ratios)}\n")


def measure(
    spins: dict[str, int], concurrency: Sequence[int], precision: str, repeats: int
) -> dict[tuple[str, int], list[Seen]]:
    """By wait and number of streams, in the order of the repeats."""
    seen: dict[tuple[str, int], list[Seen]] = {(name, streams): [] for name in spins for streams in concurrency}
    order = list(spins)
    for _ in range(repeats):
        for name in order:
            with server(SERVER, str(spins[name]), precision) as (url, _):
                wait_until_ready(url)
                asyncio.run(closed_loop(url, streams=2, out=16, salt=0))
                for streams in concurrency:
                    loop = closed_loop(url, streams=streams, out=output_tokens(streams), salt=streams)
                    seen[name, streams].append(asyncio.run(loop))
        order.append(order.pop(0))
    return seen


async def closed_loop(url: str, *, streams: int, out: int, salt: int) -> Seen:
    """All streams begin together; `salt` gives prompts that no other call has sent."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        start_s = time.perf_counter()
        ttfts_s = await asyncio.gather(*(stream(session, url, out, salt * 100_003 + i) for i in range(streams)))
        seconds = time.perf_counter() - start_s
    return streams * out / seconds, statistics.median(ttfts_s)


async def stream(session: aiohttp.ClientSession, url: str, out: int, number: int) -> float:
    """Read one stream to its end; returns its TTFT."""
    body = {
        "prompt": [1 + (number * 7919 + i * 31) % 40000 for i in range(PROMPT_TOKENS)],
        "max_tokens": out,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
    }
    start_s, ttft_s = time.perf_counter(), 0.0
    async with session.post(f"{url}/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for _ in answer.content.iter_any():
            ttft_s = ttft_s or time.perf_counter() - start_s
    return ttft_s


def output_tokens(streams: int) -> int:
    return OUTPUT_TOKENS.get(streams, 64)


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def spread(ratios: Sequence[float]) -> str:
    """The median, and the middle half."""
    low, middle, high = statistics.quantiles(ratios * 2 if len(ratios) == 1 else ratios, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
