"""How long a client hears nothing of an argument while the model writes it, through a whole gateway and HTTP.

    python bench/bench_silence.py [--repeats 3] [--pace-ms 25]

A server for each output answers with one token every `--pace-ms`, all at once; of each the longest time between two
events that bring something of the argument, over the time of a token. That of plain text, at the same time, is what the
machine adds. Before and behind its long argument a model writes what is none, so that its ends do not count.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import numpy as np
from bench_serve import server, wait_until_ready
from outputs import TOOLS, Output, outputs
from record import record

SERVER = str(Path(__file__).parent / "paced_server.py")
ENDS = 32  # events at either end, in which the name, the other argument and tags are


async def arrivals_s(session: aiohttp.ClientSession, url: str, output: Output) -> list[float]:
    """When each event came that brings text, or a stretch of an argument."""
    body = {"messages": [{"role": "user", "content": "Write."}], "stream": True}
    if output.format is not None:
        body["tools"] = TOOLS
    found: list[float] = []
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            now_s = time.perf_counter()
            if line.startswith(b"data: {"):
                delta = json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"]
                calls = delta.get("tool_calls", ())
                if delta.get("content") or any("arguments" in call["function"] for call in calls):
                    found.append(now_s)
    return found


async def repeat(servers: Sequence[tuple[Output, str]]) -> list[list[float]]:
    """Of each output the seconds between its events, all streams at once."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        found = await asyncio.gather(*(arrivals_s(session, url, output) for output, url in servers))
    return [np.diff(times_s[ENDS:-ENDS]).tolist() for times_s in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pace-ms", type=float, default=25.0)
    args = parser.parse_args()
    read = [output for output in outputs() if "call of" in output.name or output.format is None]
    with ExitStack() as stack:
        servers = []
        for output in read:
            command = (SERVER, output.name, "--pace-ms", str(args.pace_ms))
            url, _ = stack.enter_context(server(*command))
            servers.append((output, url))
        for _, url in servers:
            wait_until_ready(url)
        repeats = [asyncio.run(repeat(servers)) for _ in range(args.repeats)]
    for number, (output, _) in enumerate(servers):
        gaps = [np.array(found[number]) / (args.pace_ms / 1000) for found in repeats]
        samples = {
            "longest": [float(gap.max()) for gap in gaps],
            "p999": [float(np.quantile(gap, 0.999)) for gap in gaps],
            "median": [float(np.median(gap)) for gap in gaps],
        }
        settings = {"measure": output.name, "pace_ms": args.pace_ms, "events": len(gaps[0]) + 1}
        record("silence", samples, unit="times of a token", settings=settings)


if __name__ == "__main__":
    main()
