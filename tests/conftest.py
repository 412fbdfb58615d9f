"""What several suites need of the outside world."""

from pathlib import Path

import pytest

from dayzero.checkpoint.source import embedded_model


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The embedded model's file."""
    path = embedded_model()
    if path is None:
        pytest.skip("the embedded model is not installed: make .venv/.installed")
    return path
