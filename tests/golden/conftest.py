"""What the golden tests share."""

import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a measured figure although output is captured."""

    def write(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text} ")

    return write
