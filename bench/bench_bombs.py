"""Whether grammars that are meant to be dear hurt a server, its memory or whoever else is served.

    python bench/bench_bombs.py [--repeats 3] [--unlike 500]

Starts a server of the embedded model with its defaults. One stream goes on throughout; beside it ordinary grammars are
sent, one after the other for five seconds, then all bombs, again and again as long, each with 16 tokens of output at
most; then an ordinary grammar behind 16 bombs at once; and at last `--unlike` requests with a schema of their own each.
What is said: seconds until a bomb is answered; the stream's tokens/s beside bombs over those beside ordinary grammars
and over those alone, and its longest gap; seconds until the ordinary grammar is answered; the memory of all processes.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from bench_serve import pss_bytes, server, wait_until_ready
from bombs import bombs, multiples, unlike
from family import family
from record import record

CALM_S = 5.0
FLOOD = 16  # bombs at once
HEAD_START_S = 0.05  # of these
MOST = 16  # output tokens of a bomb that turns out to be none


@dataclass
class Neighbour:
    """A stream of somebody else: when its tokens came."""

    times_s: list[float] = field(default_factory=list)

    async def listen(self, session: aiohttp.ClientSession, url: str) -> None:
        """Until it is cancelled; one answer after the other."""
        body = {"prompt": "Once upon a time", "max_tokens": 1024, "temperature": 0, "stream": True, "ignore_eos": True}
        while True:
            async with session.post(f"{url}/v1/completions", json=body) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    if line.startswith(b"data: {"):
                        self.times_s.append(time.perf_counter())

    def between(self, start_s: float, end_s: float) -> list[float]:
        """Gaps between its tokens, in seconds."""
        times_s = [start_s, *(at for at in self.times_s if start_s < at < end_s), end_s]
        return [after - before for before, after in itertools.pairwise(times_s)]


async def send(session: aiohttp.ClientSession, url: str, fields: Mapping[str, Any]) -> tuple[float, str]:
    """Seconds to the answer, and what it was: a status and a code, or why the output ended."""
    body = {"messages": [{"role": "user", "content": "Answer."}], "max_tokens": MOST, "temperature": 0, **fields}
    start_s = time.perf_counter()
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        found = await answer.json()
    error = found.get("error")
    said = f"{answer.status} {error['code'] or error['type']}" if error else found["choices"][0]["finish_reason"]
    return time.perf_counter() - start_s, said


async def behind_a_flood(session: aiohttp.ClientSession, url: str, repeat: int) -> tuple[float, float]:
    """Seconds to the answer with an ordinary grammar: alone, and behind bombs that are all there at once."""
    alone_s, _ = await send(session, url, unlike(-2 * repeat - 2))
    bombs_of_repeat = (multiples(FLOOD * repeat + number) for number in range(FLOOD))
    flood = [asyncio.create_task(send(session, url, fields)) for fields in bombs_of_repeat]
    await asyncio.sleep(HEAD_START_S)
    behind_s, _ = await send(session, url, unlike(-2 * repeat - 3))
    await asyncio.gather(*flood)
    return alone_s, behind_s


def memory_mib(pid: int) -> float:
    return sum(map(pss_bytes, family(pid))) / 2**20


async def attack(url: str, pid: int, repeats: int, num_unlike: int) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        await send(session, url, unlike(-1))  # the first grammar reads the vocabulary
        neighbour = Neighbour()
        listening = asyncio.create_task(neighbour.listen(session, url))
        await asyncio.sleep(CALM_S)
        seconds: dict[str, list[float]] = {}
        said: dict[str, str] = {}
        over_ordinary, over_alone, gaps_s, memories = [], [], [], [memory_mib(pid)]
        ordinary = itertools.count(num_unlike)
        for _ in range(repeats):
            calm_s = time.perf_counter()
            await asyncio.sleep(CALM_S)
            company_s = time.perf_counter()
            while time.perf_counter() - company_s < CALM_S:
                await send(session, url, unlike(next(ordinary)))
            start_s = time.perf_counter()
            while (end_s := time.perf_counter()) - start_s < CALM_S:
                for name, fields in bombs().items():
                    took_s, said[name] = await send(session, url, fields)
                    seconds.setdefault(name, []).append(took_s)
            during = neighbour.between(start_s, end_s)
            rate = len(during) / (end_s - start_s)
            over_ordinary.append(rate / (len(neighbour.between(company_s, start_s)) / (start_s - company_s)))
            over_alone.append(rate / (len(neighbour.between(calm_s, company_s)) / (company_s - calm_s)))
            gaps_s.append(max(during))
            memories.append(memory_mib(pid))
        for name, took_s in seconds.items():
            record(
                "bombs",
                {"longest": [max(took_s)], "median": [statistics.median(took_s)]},
                unit="s",
                settings={"measure": name, "kind": "bomb", "answer": said[name]},
            )
        samples = {"over ordinary ones": over_ordinary, "over alone": over_alone, "longest gap": gaps_s}
        record("bombs", samples, unit="share, s", settings={"measure": "a stream beside them", "kind": "neighbour"})
        waited_s = [await behind_a_flood(session, url, repeat) for repeat in range(repeats)]
        samples = {"alone": [alone for alone, _ in waited_s], "behind": [behind for _, behind in waited_s]}
        settings = {"measure": "an ordinary grammar", "kind": "flood", "bombs": FLOOD}
        record("bombs", samples, unit="s", settings=settings)
        unlike_s = [(await send(session, url, unlike(number)))[0] for number in range(num_unlike)]
        memories.append(memory_mib(pid))
        listening.cancel()
    settings = {
        "measure": "memory of all",
        "kind": "memory",
        "unlike": num_unlike,
        "unlike_s": statistics.median(unlike_s),
    }
    samples = {"before": memories[:1], "after each repeat": memories[1:-1], "after unlike ones": memories[-1:]}
    record("bombs", samples, unit="MiB PSS", settings=settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--unlike", type=int, default=500)
    args = parser.parse_args()
    with server("-m", "dayzero.cli.main", "serve", "--kv-memory", "0.25") as (url, process):
        wait_until_ready(url)
        asyncio.run(attack(url, process.pid, args.repeats, args.unlike))


if __name__ == "__main__":
    main()
