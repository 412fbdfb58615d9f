"""What short requests wait for beside long prompts, at one endpoint and at one of their own; all on this machine.

    python bench/bench_endpoints.py [--repeats 7] [--requests 4] [--long 2]

Servers of the embedded model, all started before: one without endpoints, and two with an endpoint for short and one for
long prompts. The latter has a share of a step while others have requests, or 32 tokens of it. In each repeat every way
takes its turn, the first one another each time: short requests (64 tokens in, 32 out), one after the other, beside
clients that send one prompt of 6,000 tokens after the other (64 out), or beside nobody. Of each turn: the medians of
TTFT, of the time to the last token, and of the gaps between two tokens; the 95th percentile of the gaps; and how many
tokens a second the long ones have had computed. Prompts share nothing. About ten minutes.
"""

import argparse
import asyncio
import contextlib
import re
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import aiohttp
from bench_serve import server, wait_until_ready
from record import record

SHORT_IN, SHORT_OUT = 64, 32
LONG_IN, LONG_OUT = 6000, 64
SHORT_KEYS = "name=short,max_context=1024,max_requests=8,kv_memory=0.1"
SERVERS = {
    "one": ("--served-model-name", "long"),
    "two": ("--endpoint", SHORT_KEYS, "--endpoint", "name=long"),
    "capped": ("--endpoint", SHORT_KEYS, "--endpoint", "name=long,max_step_tokens=32"),
}
COMMON = ("--offline", "--max-requests", "32", "--kv-memory", "1")


@dataclass(frozen=True, slots=True)
class Way:
    """Which server, what short requests call the model, and whether there are long ones."""

    server: str
    model: str
    beside: bool = True


WAYS = {
    "alone": Way("one", "long", beside=False),
    "one endpoint": Way("one", "long"),
    "two endpoints": Way("two", "short"),
    "two, capped": Way("capped", "short"),
}
UNITS = {"ttft": "s", "e2e": "s", "gap": "s", "p95 gap": "s", "long": "tokens/s"}


class Prompts:
    """Of which none has been before."""

    def __init__(self) -> None:
        self._number = 0

    def next(self, length: int) -> list[int]:
        self._number += 1
        return [1 + (self._number * 7919 + i * (31 + self._number)) % 40000 for i in range(length)]


async def stream(session: aiohttp.ClientSession, model: str, prompt: list[int], out: int) -> list[float]:
    """When the request was sent, and when each of its chunks came."""
    body = {"model": model, "prompt": prompt, "max_tokens": out, "ignore_eos": True, "temperature": 0, "stream": True}
    times = [time.perf_counter()]
    async with session.post("/v1/completions", json=body) as answer:
        answer.raise_for_status()
        times += [time.perf_counter() async for _ in answer.content.iter_any()]
    return times


async def metric(session: aiohttp.ClientSession, name: str) -> float:
    async with session.get("/metrics") as answer:
        found = re.search(rf"^{name} (\S+)$", await answer.text(), re.MULTILINE)
    assert found, name
    return float(found[1])


@asynccontextmanager
async def long_ones(session: aiohttp.ClientSession, count: int, prompts: Prompts) -> AsyncIterator[None]:
    """From when the first has its first tokens computed, until nothing of them runs."""

    async def client() -> None:
        while True:
            await stream(session, "long", prompts.next(LONG_IN), LONG_OUT)

    before = await metric(session, "dayzero_computed_tokens_total")
    tasks = [asyncio.create_task(client()) for _ in range(count)]
    while tasks and await metric(session, "dayzero_computed_tokens_total") <= before:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
    yield
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    while await metric(session, "dayzero_requests_in_flight") > 0:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def turn(url: str, way: Way, args: argparse.Namespace, prompts: Prompts) -> dict[str, float]:
    """One way's part of a repeat."""
    count = args.long if way.beside else 0
    async with aiohttp.ClientSession(url) as session, long_ones(session, count, prompts):
        computed, start_s = await metric(session, "dayzero_computed_tokens_total"), time.perf_counter()
        heard = [await stream(session, way.model, prompts.next(SHORT_IN), SHORT_OUT) for _ in range(args.requests)]
        computed = await metric(session, "dayzero_computed_tokens_total") - computed
        seconds = time.perf_counter() - start_s
    gaps = [later - earlier for times in heard for earlier, later in pairwise(times[1:])]
    of_short = args.requests * (SHORT_IN + SHORT_OUT - 1)
    return {
        "ttft": statistics.median(times[1] - times[0] for times in heard),
        "e2e": statistics.median(times[-1] - times[0] for times in heard),
        "gap": statistics.median(gaps),
        "p95 gap": statistics.quantiles(gaps, n=20)[-1],
        "long": max(0.0, computed - of_short) / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--requests", type=int, default=4, help="short ones, of each turn")
    parser.add_argument("--long", type=int, default=2, help="clients that send long prompts")
    args = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    order, prompts = list(WAYS), Prompts()
    with ExitStack() as servers:
        urls = {}
        for name, flags in SERVERS.items():
            urls[name], _ = servers.enter_context(server("-m", "dayzero.cli.main", "serve", *COMMON, *flags))
            wait_until_ready(urls[name])
        for repeat in range(args.repeats + 1):
            for name in order:
                seen = asyncio.run(turn(urls[WAYS[name].server], WAYS[name], args, prompts))
                if repeat:  # the first is for warmth
                    found[name].append(seen)
            order.append(order.pop(0))
    settings = {"requests": args.requests, "long": args.long, "input_tokens": SHORT_IN, "output_tokens": SHORT_OUT}
    for measure, unit in UNITS.items():
        samples = {name: [seen[measure] for seen in turns] for name, turns in found.items()}
        record("endpoints", samples, unit=unit, settings={"measure": measure, **settings, "long_tokens": LONG_IN})


if __name__ == "__main__":
    main()
