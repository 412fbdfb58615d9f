"""Means are over tokens, intervals over documents."""

import numpy as np
import pytest

from dayzero.workshop.fidelity.estimate import MIN_DOCUMENTS_FOR_INTERVAL, Rows, bootstrap, difference, estimate


def rows(document: str, *kl: float, agrees: bool = True) -> Rows:
    return Rows(document, np.array(kl), np.full(len(kl), agrees))


def drawn(rng: np.random.Generator, num_documents: int) -> list[Rows]:
    """Documents of unlike lengths, whose tokens share a level: KL has the mean 1 whichever way it is drawn."""
    levels = rng.exponential(1.0, num_documents)
    return [
        Rows(f"{i}", level * rng.exponential(1.0, n), rng.random(n) < 0.9)
        for i, (level, n) in enumerate(zip(levels, rng.integers(20, 60, num_documents), strict=True))
    ]


def test_a_mean_is_over_tokens_not_over_documents():
    found = estimate([rows("a", 1.0, 1.0, 1.0), rows("b", 5.0, agrees=False)])
    assert found.kl.mean == pytest.approx(2.0)
    assert found.top_1_agreement.mean == pytest.approx(0.75)
    assert (found.num_tokens, found.num_documents, found.kl_max, found.kl_median) == (4, 2, 5.0, 1.0)


def test_the_tail_is_that_of_all_tokens():
    values = np.random.default_rng(0).permutation(1001) / 1000
    assert estimate([rows("a", *values[:400]), rows("b", *values[400:])]).kl_p99 == pytest.approx(0.99)


def test_few_documents_have_no_interval():
    few = [rows(str(i), float(i)) for i in range(MIN_DOCUMENTS_FOR_INTERVAL - 1)]
    assert estimate(few).kl.low is None
    assert estimate([*few, rows("one more", 9.0)]).kl.low is not None


def test_passages_of_one_document_are_resampled_as_one():
    whole = [rows(str(i), *[float(i)] * 6) for i in range(10)]
    cut = [rows(str(i), *[float(i)] * n) for n in (1, 3, 2) for i in reversed(range(10))]
    assert estimate(cut).kl == estimate(whole).kl
    assert estimate(cut).num_documents == 10


def test_an_interval_is_as_wide_as_few_documents_make_it_however_many_tokens_they_have():
    def width(tokens: int) -> float:
        found = estimate([rows(str(i), *[float(i)] * tokens) for i in range(10)]).kl
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(500) == pytest.approx(width(1))
    assert width(1) == pytest.approx(2 * 1.96 * np.std(range(10)) / 10**0.5, rel=0.1)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        found = estimate(drawn(rng, 60)).kl
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    assert 0.87 <= covered / 100 <= 0.99  # the percentile bootstrap is a little narrow for skewed means


def test_tokens_resampled_one_by_one_would_claim_to_know_more():
    some = drawn(np.random.default_rng(0), 60)
    kl = np.concatenate([part.kl for part in some])
    low, high = bootstrap(kl, np.ones(len(kl)), seed=0)
    honest = estimate(some).kl
    assert honest.low is not None
    assert honest.high is not None
    assert honest.high - honest.low > 3 * (high - low)


def test_the_same_rows_and_seed_give_the_same_interval():
    some = drawn(np.random.default_rng(1), 20)
    assert estimate(some, seed=3) == estimate(some, seed=3)
    assert estimate(some, seed=3).kl != estimate(some, seed=4).kl


def test_a_paired_difference_does_not_see_what_both_have_in_common():
    a = drawn(np.random.default_rng(2), 30)
    b = [Rows(part.document, part.kl + 0.01, part.agrees) for part in a]
    found = difference(a, b)
    assert found.mean == pytest.approx(-0.01)
    assert (found.low, found.high) == pytest.approx((-0.01, -0.01))


def test_a_difference_of_other_passages_is_refused():
    with pytest.raises(AssertionError, match="not the same passages"):
        difference([rows("a", 1.0)], [rows("b", 1.0)])
