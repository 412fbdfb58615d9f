"""Rows of logits by native code: the likeliest token, log-probabilities against float64, masks, equal bits in company.

What is drawn is tested beside its reference, in tests/sampling/test_native.py.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dayzero.kernels.native.vocabulary import NativeVocabulary
from tests.kernels.native.replay import MOST_ROWS, NUM_ROWS, Machine, assert_as_accurate

SIZES = [1, 2, 31, 32, 33, 1000, 49_152, 151_936]
MOST_TOP = 20
ALL = (0, 1.0, -math.inf)  # nothing truncated

Mask = NDArray[np.int32]


@pytest.fixture
def vocabulary(machine: Machine) -> NativeVocabulary:
    return NativeVocabulary(machine.native, machine.pool, machine.instruction_set)


def answers(vocabulary: NativeVocabulary, logits: Tensor, packed: Sequence[bytes]) -> Any:
    assert logits.is_contiguous()
    assert len(logits) == len(packed)
    return vocabulary.answer(logits.data_ptr(), logits.shape[1], b"".join(packed))


def likeliest(vocabulary: NativeVocabulary, logits: Tensor, allowed: Mask | None = None) -> list[int]:
    packed = vocabulary.drawn(0.0, ALL, (0, 0, 0), allowed, None)
    tokens: list[int] = answers(vocabulary, logits, [packed] * len(logits)).tokens
    return tokens


def told(vocabulary: NativeVocabulary, logits: Tensor, token: int, num_top: int) -> Any:
    return answers(vocabulary, logits, [vocabulary.told(token, num_top)] * len(logits))


def rows(count: int, size: int, seed: int = 0) -> Tensor:
    """Rounded to bfloat16, as a model's often are: ties everywhere."""
    return (torch.randn(count, size, generator=torch.Generator().manual_seed(seed + size)) * 3).bfloat16().float()


def mask(bits: Sequence[bool]) -> Mask:
    words = np.zeros(-(-len(bits) // 32) * 32, dtype=np.uint8)
    words[: len(bits)] = bits
    return np.packbits(words, bitorder="little").view(np.int32)


@pytest.mark.parametrize("size", SIZES)
def test_the_likeliest_token_is_the_first_of_the_largest(vocabulary: NativeVocabulary, size: int) -> None:
    logits = torch.cat([rows(9, size), rows(9, size).round(), torch.zeros(1, size), torch.full((1, size), -1e38)])
    assert likeliest(vocabulary, logits) == logits.numpy().argmax(-1).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_the_likeliest_token_is_found_wherever_it_is(vocabulary: NativeVocabulary, size: int) -> None:
    for at in sorted({0, size // 3, size // 2, size - 1}):
        logits = torch.full((1, size), -torch.inf)
        logits[0, at:] = 5.0
        assert likeliest(vocabulary, logits) == [at]


def test_zeros_of_either_sign_are_equal(vocabulary: NativeVocabulary) -> None:
    logits = torch.full((2, 40), -1.0)
    logits[0, 3], logits[0, 21] = -0.0, 0.0
    logits[1, 3], logits[1, 21] = 0.0, -0.0
    assert likeliest(vocabulary, logits) == [3, 3]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_has_no_token_and_harms_no_other(
    vocabulary: NativeVocabulary, size: int, bad: float
) -> None:
    for at in (0, size - 1):
        logits = rows(3, size)
        logits[1, at] = bad
        if bad == -math.inf:
            logits[1] = bad
        found = likeliest(vocabulary, logits)
        first, _, last = logits.numpy().argmax(-1).tolist()
        assert found == [first, vocabulary.NOT_FINITE, last]


def test_a_row_that_is_not_finite_has_no_log_probability(vocabulary: NativeVocabulary) -> None:
    logits = torch.zeros(3, 50)
    logits[0, 7], logits[1, 7], logits[2] = math.nan, math.inf, -math.inf
    found = told(vocabulary, logits, 3, 2)
    assert all(math.isnan(one) for one in found.logprobs)
    assert found.top_ids == [-1] * 6


def test_no_rows_and_an_empty_vocabulary_have_no_token(vocabulary: NativeVocabulary) -> None:
    assert likeliest(vocabulary, torch.empty(0, 10)) == []
    assert likeliest(vocabulary, torch.empty(2, 0)) == [vocabulary.NOT_FINITE] * 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [0.0, 1e-3, 3.0, 40.0])
def test_a_log_probability_is_what_float64_gives(vocabulary: NativeVocabulary, size: int, spread: float) -> None:
    logits = torch.randn(5, size, generator=torch.Generator().manual_seed(size)) * spread
    for token in {0, size // 2, size - 1}:
        ours = torch.tensor(told(vocabulary, logits, token, 0).logprobs)
        judge = torch.log_softmax(logits.double(), -1)[:, token]
        assert_as_accurate(ours, torch.log_softmax(logits, -1)[:, token], judge)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num_top", [0, 1, 5, MOST_TOP])
def test_rank_and_alternatives_are_those_of_a_stable_sort(
    vocabulary: NativeVocabulary, size: int, num_top: int
) -> None:
    logits = torch.cat([rows(4, size), rows(2, size).round(), torch.zeros(1, size)])
    logits[1, ::2] = -torch.inf
    logits[1, 0] = 1.0
    token, count = size // 2, min(num_top, size)
    found = told(vocabulary, logits, token, num_top)
    order = torch.argsort(-logits, dim=-1, stable=True)[:, :num_top]
    ids = torch.tensor(found.top_ids).view(len(logits), num_top)
    assert torch.equal(ids[:, :count], order)
    assert (ids[:, count:] == -1).all()
    assert found.ranks == (1 + (logits > logits[:, token : token + 1]).sum(-1)).tolist()
    values = torch.tensor(found.top_logprobs).view(len(logits), num_top)[:, :count]
    expected = torch.log_softmax(logits.double(), -1).gather(1, order)
    assert torch.equal(values.isinf(), expected.isinf())
    torch.testing.assert_close(values.double(), expected, rtol=1e-6, atol=1e-6)


def test_each_row_is_told_of_as_many_alternatives_as_it_asked_for(vocabulary: NativeVocabulary) -> None:
    logits = rows(4, 100)
    packed = [vocabulary.told(5, 3), vocabulary.drawn(0.0, ALL, (0, 0, 0), None, None), vocabulary.told(6, 0)]
    found = answers(vocabulary, logits, [*packed, vocabulary.drawn(0.0, ALL, (0, 0, 0), None, 1)])
    order = torch.argsort(-logits, dim=-1, stable=True).tolist()
    assert found.tokens == [5, order[1][0], 6, order[3][0]]
    assert found.top_ids == [*order[0][:3], -1, -1, -1, -1, -1, -1, order[3][0], -1, -1]
    assert math.isnan(found.logprobs[1])
    assert found.logprobs[3] == found.top_logprobs[9]


@pytest.mark.parametrize("size", SIZES)
def test_a_mask_leaves_the_tokens_whose_bits_are_set(vocabulary: NativeVocabulary, size: int) -> None:
    logits = rows(3, size)
    bits = torch.rand(size, generator=torch.Generator().manual_seed(size)) < 0.3
    bits[size // 2] = True
    expected = logits.masked_fill(~bits, -torch.inf).numpy().argmax(-1).tolist()
    assert likeliest(vocabulary, logits, mask(bits.tolist())) == expected
    assert likeliest(vocabulary, logits, mask([True] * size)) == logits.numpy().argmax(-1).tolist()
    assert likeliest(vocabulary, logits, mask([False] * size)) == [vocabulary.NOT_FINITE] * 3
    for only in {0, size // 3, size - 1}:
        assert likeliest(vocabulary, logits, mask([i == only for i in range(size)])) == [only] * 3


@pytest.mark.parametrize("size", [1, 31, 33, 1000])
def test_bits_beyond_the_vocabulary_allow_nothing(vocabulary: NativeVocabulary, size: int) -> None:
    words = mask([False] * size)
    words[-1] = np.int32(-1) << size % 32
    memory = torch.zeros(size + 32)
    memory[size:] = 9.0  # what lies behind the row would win
    assert likeliest(vocabulary, memory[:size][None], words) == [vocabulary.NOT_FINITE]


def test_what_a_mask_forbids_may_be_anything(vocabulary: NativeVocabulary) -> None:
    logits = torch.full((1, 70), math.nan)
    logits[0, 65] = 1.0
    logits[0, 3] = math.inf
    assert likeliest(vocabulary, logits, mask([i == 65 for i in range(70)])) == [65]


def test_log_probabilities_are_raw_and_logits_left_as_they_were(vocabulary: NativeVocabulary) -> None:
    logits = rows(1, 100)
    before = logits.clone()
    best = int(logits.argmax())
    allowed = mask([i != best for i in range(100)])
    found = answers(vocabulary, logits, [vocabulary.drawn(0.0, ALL, (0, 0, 0), allowed, 2)])
    second = int(torch.argsort(-logits[0], stable=True)[1])
    assert found.tokens == [second]
    assert found.top_ids == [best, second]
    assert found.logprobs[0] == found.top_logprobs[1]
    assert torch.equal(logits, before)


def everything(vocabulary: NativeVocabulary, logits: Tensor, first: int) -> list[tuple[Any, ...]]:
    """Of each row, all that can be asked of it: what it asks depends on its place in the whole."""
    size = logits.shape[1]
    allowed = mask([i % 3 > 0 for i in range(size)])
    kinds = [
        lambda i: vocabulary.drawn(0.0, ALL, (i, 0, 0), None, 3),
        lambda i: vocabulary.drawn(0.7, (0, 0.95, -math.inf), (i, i, 0), None, 1),
        lambda i: vocabulary.drawn(1.0, ALL, (i, i, 1), None, 0),
        lambda i: vocabulary.drawn(1.5, (7, 1.0, -3.0), (i, i, 0), allowed, 0),
        lambda i: vocabulary.told(i % size, 4),
    ]
    found = answers(vocabulary, logits, [kinds[i % len(kinds)](i) for i in range(first, first + len(logits))])
    most = len(found.top_ids) // len(logits)
    tops = list(zip(found.top_ids, found.top_logprobs, strict=True))
    each = zip(found.tokens, found.logprobs, found.ranks, strict=True)
    return [(*row, *(top for top in tops[i * most : (i + 1) * most] if top[0] >= 0)) for i, row in enumerate(each)]


def test_a_row_has_the_same_answer_in_any_company(vocabulary: NativeVocabulary) -> None:
    logits = rows(MOST_ROWS, 700)
    together = everything(vocabulary, logits, 0)
    for count in NUM_ROWS:
        first = (count * 37) % (MOST_ROWS - count + 1)
        assert everything(vocabulary, logits[first : first + count], first) == together[first : first + count]


@pytest.mark.parametrize("num_threads_too", [1, 2, 3])
def test_an_answer_does_not_depend_on_the_number_of_threads(machine: Machine, num_threads_too: int) -> None:
    logits = rows(40, 5000)
    pools = [machine.pool, machine.native.ThreadPool(num_threads_too, 50)]
    one, other = (NativeVocabulary(machine.native, pool, machine.instruction_set) for pool in pools)
    assert everything(one, logits, 0) == everything(other, logits, 0)


def test_a_vocabulary_answers_rows_of_any_width_after_each_other(vocabulary: NativeVocabulary) -> None:
    for size in (1000, 3, 40_000, 33):
        logits = rows(2, size)
        packed = [vocabulary.drawn(1e-3, (0, 0.9, -math.inf), (1, 1, 0), None, None)] * 2
        assert answers(vocabulary, logits, packed).tokens == logits.argmax(-1).tolist()


@pytest.mark.parametrize("token", [100, 2**31 - 1, -4])
def test_a_token_beyond_the_vocabulary_is_refused(vocabulary: NativeVocabulary, token: int) -> None:
    with pytest.raises(ValueError, match="not in the vocabulary"):
        told(vocabulary, rows(1, 100), token, 0)


def test_a_row_whose_answer_is_given_is_told_nothing(vocabulary: NativeVocabulary) -> None:
    logits = rows(3, 50)
    given = [vocabulary.DOUBTFUL, vocabulary.NOT_FINITE]
    found = answers(vocabulary, logits, [*(vocabulary.told(one, 1) for one in given), vocabulary.told(1, None)])
    assert found.tokens == [*given, 1]
    assert all(math.isnan(one) for one in found.logprobs)
