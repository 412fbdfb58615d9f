"""A process and what it has started, on Linux."""

from contextlib import suppress
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all its descendants, parents first; none if it has ended."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):  # any of its threads may have started one
        with suppress(OSError):  # ended meanwhile
            children += map(int, task.read_text().split())
    if not Path(f"/proc/{pid}").exists():
        return []
    return [pid, *(descendant for child in children for descendant in family(child))]


def state(pid: int) -> str:
    """R running, S or D waiting, T stopped, Z ended; "" of none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
