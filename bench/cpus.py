"""Threads on CPUs of their own.

Linux puts a thread that is woken beside its waker, where both share a CPU until the load is balanced, some milliseconds
later: longer than most measurements. What a machine can do is measured with threads that stay apart.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CPUS = sorted(os.sched_getaffinity(0))  # of the process, as it started


def apart(start: Callable[[], T]) -> T:
    """Call what starts threads, and bind each of these to a CPU that is not the caller's: the second, the third, ..."""
    before = _threads()
    made = start()
    for number, thread in enumerate(sorted(_threads() - before)):
        if others := CPUS[1:]:
            os.sched_setaffinity(thread, {others[number % len(others)]})
    return made


@contextmanager
def on_the_first() -> Iterator[None]:
    """The caller is bound to the first CPU. Threads that start meanwhile are, too."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CPUS[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _threads() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/task").iterdir()}
