"""bench/cpus.py: where threads may run, and that the caller gets back what it had."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.cpus import CPUS, apart, on_the_first


@contextmanager
def waiting(count: int) -> Iterator[list[threading.Thread]]:
    """Threads, started by `apart`, that last as long as the block."""
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(count)]
    try:
        apart(lambda: [thread.start() for thread in threads])
        yield threads
    finally:
        done.set()
        for thread in threads:
            thread.join()


def where(thread: threading.Thread) -> set[int]:
    assert thread.native_id is not None
    return os.sched_getaffinity(thread.native_id)


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU")
def test_threads_that_start_keep_off_the_first_cpu_even_if_the_caller_is_bound_to_it() -> None:
    with on_the_first(), waiting(1) as (thread,):
        assert where(thread) == {CPUS[1]}
        assert os.sched_getaffinity(0) == {CPUS[0]}


def test_the_caller_is_as_free_afterwards_as_before() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), on_the_first():
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == before


def test_there_may_be_more_threads_than_cpus() -> None:
    with waiting(len(CPUS) + 1) as threads:
        assert all(where(thread) <= set(CPUS) for thread in threads)
