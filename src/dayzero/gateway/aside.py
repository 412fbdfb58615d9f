"""Work that would keep the event loop from everybody else, done beside it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def aside(work: Callable[[], R], *, is_long: bool) -> R:
    """What `work` returns or raises; in a thread if it is long, else here. It must be safe beside other threads."""
    return await asyncio.to_thread(work) if is_long else work()
