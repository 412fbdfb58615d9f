"""Readers of the data sets that ship with the bench; `data/SOURCE` says what they are and where they are from."""

import gzip
from collections.abc import Sequence
from importlib import resources
from typing import TypeVar

import msgspec
import numpy as np

Row = TypeVar("Row")


class Question(msgspec.Struct):
    """A row of MT-Bench."""

    turns: list[str]


def read_rows(name: str, row: type[Row]) -> list[Row]:
    """The rows of `name`, a gzip of JSON lines (.jsonl.gz) or of one JSON list (.json.gz)."""
    raw = gzip.decompress(resources.files("dayzero.workshop.bench").joinpath("data", name).read_bytes())
    if name.endswith(".jsonl.gz"):
        return msgspec.json.Decoder(row).decode_lines(raw)
    return msgspec.json.decode(raw, type=list[row])  # type: ignore[valid-type]


def ordinary_text() -> str:
    """The questions of MT-Bench: some 2,000 distinct tokens of plain English, and no special one."""
    return "\n".join(text for question in read_rows("mtbench.jsonl.gz", Question) for text in question.turns)


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """The rows in an order of their own for each seed, so that short runs do not all ask the same few."""
    order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
    return [rows[i] for i in order]
