"""The machine that an engine runs on: its cores and its free memory, inside a container or not."""

import os
from dataclasses import dataclass
from pathlib import Path

ASSUMED_FREE_BYTES = 8 * 2**30  # where the system does not say (no /proc): a small laptop's


@dataclass(frozen=True, slots=True)
class Machine:
    """What `resolve` must know of it."""

    cores: int
    free_bytes: int  # the smaller of the system's and the control group's


def machine(*, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Machine:
    """Read this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    available = _field(proc / "meminfo", "MemAvailable:")
    free_bytes = ASSUMED_FREE_BYTES if available is None else available * 1024
    limit, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    if limit is not None and used is not None:
        cached = _field(cgroup / "memory.stat", "inactive_file") or 0  # files read once: given up when memory is needed
        free_bytes = min(free_bytes, max(0, limit - used + cached))
    return Machine(cores, free_bytes)


def _field(path: Path, name: str) -> int | None:
    """The number behind `name` in a file of names and numbers."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(words[1]) for words in map(str.split, lines) if words[:1] == [name]), None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # absent, or "max"
        return None
