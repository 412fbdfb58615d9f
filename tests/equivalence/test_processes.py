"""Another process gives the same answers."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.equivalence.digest import digest
from tests.golden.tiny import TINY, save

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "dtype"), [("llama", "bfloat16"), ("gemma3", "float32")])
def test_answers_are_the_same_in_another_process(name: str, dtype: str, tmp_path: Path) -> None:
    save(TINY[name], tmp_path)
    threads = torch.get_num_threads()
    other = subprocess.run(
        [sys.executable, "-m", "tests.equivalence.digest", str(tmp_path), dtype, str(threads)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert other.stdout == digest(tmp_path, dtype, threads)
