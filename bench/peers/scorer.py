"""llama.cpp as a scorer beside ours (workshop/fidelity/scorer.py): its logits after every token of a passage."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from bench.peers.contenders import ROOT, Contender, command, environment
from bench.peers.process import PeerProcess
from dayzero.workshop.fidelity.scorer import SLICE_ROWS


class PeerScorer:
    """Computes passages in chunks of as many tokens as a slice of logits has rows."""

    def __init__(self, process: PeerProcess, rows: Path) -> None:
        self._process = process
        self._rows = rows

    def logits(self, tokens: Sequence[int]) -> Iterator[Tensor]:
        for start in range(0, len(tokens), SLICE_ROWS):
            chunk = tokens[start : start + SLICE_ROWS]
            self._process.score(chunk, start, self._rows)
            yield torch.from_numpy(np.fromfile(self._rows, dtype=np.float32)).view(len(chunk), -1)


@contextmanager
def open_peer_scorer(contender: Contender, checkpoint: str, threads: int) -> Iterator[PeerScorer]:
    """Load a model of llama.cpp's. Raises PeerFailed."""
    log = ROOT / "logs" / f"fidelity-{contender.name.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory() as folder,
        PeerProcess(command(contender), environment(contender.engine, threads), log) as process,
    ):
        process.load(ROOT / "models" / checkpoint / contender.model, threads, contender.options)
        yield PeerScorer(process, Path(folder) / "rows")
