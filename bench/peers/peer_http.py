"""An engine's own server as a peer: each prompt a stream of /v1/completions, the client on the same cores.

Runs in dayzero's environment. `options`: command, with {model} and {port} to be filled in; environment; ready, the path
that answers 200 once the server takes requests.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from protocol import Prompts, serve


class Server:
    has_prefix_cache = True

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def load(self, model: str, threads: int, options: Mapping[str, Any]) -> str:  # noqa: ARG002 - in the command
        port = free_port()
        command = [word.format(model=model, port=port) for word in options["command"]]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=2, env={**os.environ, **options["environment"]}
        )
        self._url = f"http://127.0.0.1:{port}"
        while not answers(self._url + options["ready"]):
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with status {self._process.returncode}")
            time.sleep(0.01)
        with urllib.request.urlopen(f"{self._url}/v1/models", timeout=60) as answer:
            self._model = json.load(answer)["data"][0]["id"]
        return ""

    def generate(self, prompts: Prompts, output_tokens: int) -> int:
        return asyncio.run(self._streams(prompts, output_tokens))

    def close(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)

    async def _streams(self, prompts: Prompts, output_tokens: int) -> int:
        """A connection for each: a server may have closed one that was open while it was stopped."""
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(self._url, connector=connector, timeout=timeout) as session:
            return sum(await asyncio.gather(*(self._stream(session, prompt, output_tokens) for prompt in prompts)))

    async def _stream(self, session: aiohttp.ClientSession, prompt: list[int], output_tokens: int) -> int:
        """Read to the end; return the output tokens as the server counted them."""
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        last = b""
        async with session.post("/v1/completions", json=body) as answer:
            answer.raise_for_status()
            async for chunk in answer.content.iter_any():
                last = (last + chunk)[-8192:]
        events = (line.removeprefix(b"data:") for line in reversed(last.splitlines()))
        usage = next(json.loads(event)["usage"] for event in events if b'"completion_tokens"' in event)
        return int(usage["completion_tokens"])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    server = Server()
    try:
        serve(server)
    finally:
        server.close()
