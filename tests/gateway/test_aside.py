import asyncio
import threading

import pytest

from dayzero.gateway.aside import aside


@pytest.mark.parametrize("is_long", [True, False])
def test_only_long_work_leaves_the_thread_of_the_loop(is_long: bool) -> None:
    thread = asyncio.run(aside(threading.current_thread, is_long=is_long))
    assert (thread is not threading.current_thread()) == is_long


@pytest.mark.parametrize("is_long", [True, False])
def test_what_the_work_raises_is_raised(is_long: bool) -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(aside(lambda: 1 // 0, is_long=is_long))
