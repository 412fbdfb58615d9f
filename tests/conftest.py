"""What several suites need of the outside world."""

import os
from pathlib import Path

# As the engine's process does: read when torch is loaded. Threads that spin make a busy machine ten times slower.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import pytest

from dayzero.checkpoint.locate import embedded_model


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The embedded model's file."""
    path = embedded_model()
    if path is None:
        pytest.skip("the embedded model is not installed: make .venv/.installed")
    return path
