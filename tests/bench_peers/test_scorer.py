"""A peer's logits come in slices of a passage that is continued, as ours do."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bench.peers.scorer import PeerScorer
from dayzero.workshop.fidelity.scorer import SLICE_ROWS

VOCABULARY = 5


class Continuing:
    """Writes, for each token, its position and itself; refuses to jump."""

    def __init__(self) -> None:
        self.length = 0

    def score(self, tokens: Sequence[int], position: int, rows: Path) -> None:
        assert position in (0, self.length)
        self.length = position + len(tokens)
        logits = np.zeros((len(tokens), VOCABULARY), dtype=np.float32)
        logits[:, 0] = range(position, self.length)
        logits[:, 1] = tokens
        logits.tofile(rows)


def test_the_slices_of_a_passage_are_its_rows_in_order_and_the_next_passage_starts_afresh(tmp_path: Path) -> None:
    scorer = PeerScorer(Continuing(), tmp_path / "rows")  # type: ignore[arg-type]
    for length in (1, SLICE_ROWS, SLICE_ROWS + 3):
        slices = list(scorer.logits(range(100, 100 + length)))
        assert all(len(part) <= SLICE_ROWS for part in slices)
        rows = torch.cat(slices)
        assert rows.shape == (length, VOCABULARY)
        assert rows[:, 0].tolist() == list(range(length))
        assert rows[:, 1].tolist() == list(range(100, 100 + length))
