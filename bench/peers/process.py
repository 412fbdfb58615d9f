"""A peer as a process of its own, which runs only while it is asked something."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.family import family, state


class PeerFailed(RuntimeError):
    """It answered with an error, or has ended."""


class PeerProcess:
    """Speaks protocol.py's JSON lines. Between `suspend` and `resume` it and what it has started take no processor
    time, however their threads wait, so peers stay loaded beside each other without slowing each other.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, **environment},
                start_new_session=True,  # a group of its own, which Ctrl-C does not reach
            )
        self._log = log
        self.has_prefix_cache = False
        self.version = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, model: Path, threads: int, options: Mapping[str, Any]) -> None:
        found = self._ask({"op": "load", "model": str(model), "threads": threads, "options": dict(options)})
        self.version, self.has_prefix_cache = found["version"], found["has_prefix_cache"]

    def generate(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> float:
        """Seconds to complete all prompts together."""
        return float(self._ask({"op": "generate", "prompts": prompts, "output_tokens": output_tokens})["seconds"])

    def score(self, tokens: Sequence[int], position: int, rows: Path) -> None:
        """Continue one sequence at `position`, writing the logits after each token into `rows`: [N, V] float32."""
        self._ask({"op": "score", "tokens": list(tokens), "position": position, "rows": str(rows)})

    def suspend(self) -> None:
        """Once it returns, all have stopped."""
        self._signal_all(signal.SIGSTOP)
        while any(state(pid) in ("R", "S", "D") for pid in family(self._process.pid)):
            time.sleep(0.001)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def close(self) -> None:
        """End it and what it started, asking first; it may have ended already."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.resume()
        started = _handles(family(self._process.pid))
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=20)
        for handle in started:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # orphans of a peer that had ended before
        self._process.wait()
        self._process.stdout.close()

    def _signal_all(self, number: int) -> None:
        """Parents first: who is stopped starts no other."""
        for pid in family(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerFailed(f"ended with status {self._process.wait()}: {self._log}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerFailed(f"{reply['error']}: {self._log}")
        return reply


def _handles(pids: Iterable[int]) -> list[int]:
    """Of processes, which stay themselves when their numbers are given to others."""
    handles = []
    for pid in pids:
        with suppress(ProcessLookupError):  # ended meanwhile
            handles.append(os.pidfd_open(pid))
    return handles
