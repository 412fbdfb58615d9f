"""`dayzero serve` as a process: started on any free port, spoken to, ended by signals."""

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import httpx

WAIT_S = 120.0  # of a machine that does much else; a quiet one needs three


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dayzero.cli.main", "serve", *map(str, arguments)]


class Server:
    """A server that takes requests. `printed` is what it said by then; its log is kept from the terminal."""

    def __init__(self, *arguments: object) -> None:
        self._held = contextlib.ExitStack()
        self._log = self._held.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - the stack closes it
        self.process = self._held.enter_context(
            subprocess.Popen(command("--port", 0, *arguments), stdout=subprocess.PIPE, stderr=self._log, text=True)
        )
        self._held.callback(self.process.kill)
        assert self.process.stdout is not None
        self.printed = ""
        for line in self.process.stdout:
            self.printed += line
            if line.startswith("curl "):
                break
        found = re.search(r"^listening +(http://\S+)$", self.printed, re.MULTILINE)
        assert found, self.log
        self.url = found[1]
        self.client = self._held.enter_context(httpx.Client(base_url=self.url, timeout=WAIT_S))

    @property
    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        return self.client.post(path, json=body, headers=headers)

    def engine_pid(self) -> int:
        """Of the child that holds the model."""
        for status in Path("/proc").glob("[0-9]*/status"):
            parent = re.search(r"^PPid:\s(\d+)$", status.read_text(), re.MULTILINE)
            arguments = (status.parent / "cmdline").read_bytes()
            if parent and int(parent[1]) == self.process.pid and b"dayzero.engine.process" in arguments:
                return int(status.parent.name)
        raise AssertionError("the server has no engine")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
