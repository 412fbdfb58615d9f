"""Rows by document -> means with their intervals, and the tail. Pure.

Tokens of one document share its difficulty, so whole documents are resampled (the cluster bootstrap). A mean is over
tokens: sum over the drawn documents / tokens of the drawn documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
MIN_DOCUMENTS_FOR_INTERVAL = 8  # resamples of fewer are all but the same few values
RESAMPLES = 2_000

Floats = np.typing.NDArray[np.float64]
Counts = np.typing.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What is kept of a passage. kl: nats, of each row; agrees: whether both have the same likeliest token."""

    document: str
    kl: Floats
    agrees: "np.typing.NDArray[np.bool_]"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tokens. `low`, `high`: its 95 % interval; None of too few documents."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Of one served configuration. KL(golden || served) in nats a token; top-1 agreement is a ratio."""

    num_tokens: int
    num_documents: int
    kl: Estimate
    kl_median: float
    kl_p99: float
    kl_max: float
    top_1_agreement: Estimate


def estimate(rows: Sequence[Rows], *, seed: int = 0) -> Fidelity:
    """The same rows and seed give the same intervals."""
    kl = np.concatenate([part.kl for part in rows])
    documents = _document_of_each(rows)
    median, p99 = np.quantile(kl, (0.5, 0.99))
    return Fidelity(
        num_tokens=len(kl),
        num_documents=int(documents[-1].max()) + 1,
        kl=_mean([part.kl.sum() for part in rows], *documents, seed=seed),
        kl_median=float(median),
        kl_p99=float(p99),
        kl_max=float(kl.max()),
        top_1_agreement=_mean([part.agrees.sum() for part in rows], *documents, seed=seed),
    )


def difference(a: Sequence[Rows], b: Sequence[Rows], *, seed: int = 0) -> Estimate:
    """Mean KL of a - mean KL of b, token by token, over the same passages: an interval that holds 0 decides nothing."""
    assert [(x.document, len(x.kl)) for x in a] == [(x.document, len(x.kl)) for x in b], "not the same passages"
    return _mean([x.kl.sum() - y.kl.sum() for x, y in zip(a, b, strict=True)], *_document_of_each(a), seed=seed)


def _document_of_each(rows: Sequence[Rows]) -> tuple[Counts, Counts]:
    """Of each passage its tokens, and the index of its document."""
    _, index = np.unique([part.document for part in rows], return_inverse=True)
    return np.array([len(part.kl) for part in rows]), index


def _mean(sums: Sequence[float], tokens: Counts, document: Counts, *, seed: int) -> Estimate:
    num_documents = int(document.max()) + 1
    document_sums, document_tokens = np.zeros(num_documents), np.zeros(num_documents)
    np.add.at(document_sums, document, sums)
    np.add.at(document_tokens, document, tokens)
    mean = float(document_sums.sum() / document_tokens.sum())
    if num_documents < MIN_DOCUMENTS_FOR_INTERVAL:
        return Estimate(mean, None, None)
    low, high = bootstrap(document_sums, document_tokens, seed=seed)
    return Estimate(mean, low, high)


def bootstrap(sums: Floats, tokens: Floats, *, seed: int) -> tuple[float, float]:
    """The percentile interval of sum(sums) / sum(tokens) over documents drawn whole, with replacement."""
    num_documents = len(sums)
    times_drawn = np.random.default_rng(seed).multinomial(num_documents, [1 / num_documents] * num_documents, RESAMPLES)
    means = (times_drawn @ sums) / (times_drawn @ tokens)
    tail = (1 - CONFIDENCE) / 2
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))
