"""A checkpoint's answers to some requests, as a digest: `python -m tests.equivalence.digest FOLDER DTYPE THREADS`."""

import hashlib
import random
import sys
from pathlib import Path

import torch

from tests.equivalence.batching import known_requests
from tests.equivalence.loaded import Loaded


def digest(folder: Path, dtype: str, threads: int) -> str:
    """Of tokens and log-probabilities, to the last bit."""
    torch.set_num_threads(threads)
    loaded = Loaded(folder, getattr(torch, dtype), max_context=1024)
    stem = random.Random(2).choices(range(loaded.shape.vocab_size), k=100)
    known = known_requests(loaded, [stem], count=8, max_prompt=100, max_tokens=12)
    return hashlib.sha256(repr([one.answer for one in known]).encode()).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
