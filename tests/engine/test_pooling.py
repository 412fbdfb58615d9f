"""Embeddings at the engine: what is pooled, and that neither chunks nor companions nor preemptions show in a bit."""

import math
import struct

import numpy as np
import pytest

from dayzero.core.pooling import Pooling
from dayzero.engine import pooling

ROWS = [np.array(row, dtype=np.float32) for row in ([1, 2], [3, -4], [1e8, 0.5], [-1e8, 7])]


def in_spans(wanted: Pooling, *lengths: int) -> bytes | None:
    """The embedding of ROWS that come in spans of such lengths."""
    total, start = None, 0
    for length in lengths:
        stop = start + length
        rows = pooling.wanted(wanted, start, length, is_last=stop == len(ROWS))
        total = pooling.add(total, [ROWS[start + row] for row in rows])
        start = stop
    return pooling.embedding(total)


@pytest.mark.parametrize("wanted", ["cls", "mean", "last"])
def test_spans_do_not_show(wanted: Pooling) -> None:
    whole = in_spans(wanted, 4)
    assert whole is not None
    assert {in_spans(wanted, *lengths) for lengths in ((4,), (1, 3), (3, 1), (2, 2), (1, 1, 1, 1))} == {whole}


def test_a_mean_has_the_direction_of_all_rows_and_the_first_and_last_their_own() -> None:
    for wanted, row in (("cls", ROWS[0]), ("mean", np.sum(ROWS, axis=0, dtype=np.float64)), ("last", ROWS[-1])):
        found = in_spans(wanted, 4)  # type: ignore[arg-type]
        assert found is not None
        assert struct.unpack("<2f", found) == pytest.approx(tuple(row / np.linalg.norm(row)), rel=1e-6)


@pytest.mark.parametrize("row", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_what_has_no_direction_has_no_embedding(row: list[float]) -> None:
    assert pooling.embedding(pooling.add(None, [np.array(row, dtype=np.float32)])) is None
    assert pooling.embedding(None) is None
