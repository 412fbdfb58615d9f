import math

import numpy as np
import pytest
import torch

from dayzero.core.events import Logprob
from dayzero.sampling.logprobs import logprobs

VOCAB_SIZE = 49_152


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def a_batch(num_rows, vocab_size, seed=0):
    logits = torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * 3
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, vocab_size, num_rows).tolist()
    return logits.bfloat16().float(), tokens, rng.integers(0, min(21, vocab_size + 1), num_rows).tolist()


def oracle(logits, token, num_top):
    """One row, sorted in Python: likelier first, equals by id."""
    values = torch.log_softmax(logits, -1).tolist()
    raw = logits.tolist()
    order = sorted(range(len(raw)), key=lambda i: (-raw[i], i))
    rank = 1 + sum(one > raw[token] for one in raw)
    return Logprob(token, values[token], rank, tuple((i, values[i]) for i in order[:num_top]))


@pytest.mark.parametrize(("num_rows", "vocab_size"), [(1, 1), (5, 3), (40, 20), (33, 300), (3, 20_000)])
def test_entries_are_those_of_a_plain_sort(num_rows, vocab_size):
    logits, tokens, num_top = a_batch(num_rows, vocab_size, seed=vocab_size)
    expected = [oracle(*each) for each in zip(logits, tokens, num_top, strict=True)]
    assert logprobs(logits, tokens, num_top) == expected


def test_log_probabilities_are_of_the_raw_model():
    (entry,) = logprobs(torch.log(torch.tensor([[0.1, 0.4, 0.25, 0.25]])), [3], [3])
    assert entry.logprob == pytest.approx(math.log(0.25), abs=1e-6)
    assert entry.rank == 2
    assert [token for token, _ in entry.top] == [1, 2, 3]


def test_of_equal_tokens_the_lowest_ids_are_reported():
    logits = torch.zeros(2, VOCAB_SIZE)
    logits[1, VOCAB_SIZE // 2 :] = 1.0
    first, second = logprobs(logits, [9, 9], [3, 2])
    assert [token for token, _ in first.top] == [0, 1, 2]
    assert [token for token, _ in second.top] == [VOCAB_SIZE // 2, VOCAB_SIZE // 2 + 1]
    assert (first.rank, second.rank) == (1, VOCAB_SIZE // 2 + 1)


def test_no_rows_and_no_alternatives_are_fine():
    assert logprobs(torch.empty(0, 5), [], []) == []
    (entry,) = logprobs(torch.zeros(1, 4), [2], [0])
    assert entry == Logprob(2, pytest.approx(-math.log(4)), 1)


def test_masked_vocabulary_is_reported_as_impossible():
    (entry,) = logprobs(torch.tensor([[0.0, -torch.inf]]), [0], [2])
    assert entry.top == ((0, 0.0), (1, -math.inf))


def test_an_entry_does_not_depend_on_the_batch(threads):
    logits, tokens, num_top = a_batch(128, VOCAB_SIZE, seed=threads)
    together = logprobs(logits, tokens, num_top)
    for start, stop in [(0, 1), (1, 3), (3, 20), (20, 53), (53, 128)]:
        part = slice(start, stop)
        assert logprobs(logits[part], tokens[part], num_top[part]) == together[part]


def test_an_entry_does_not_depend_on_the_number_of_threads():
    logits, tokens, num_top = a_batch(40, VOCAB_SIZE)
    before = torch.get_num_threads()
    entries = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        entries.append(logprobs(logits, tokens, num_top))
    torch.set_num_threads(before)
    assert entries[0] == entries[1] == entries[2]
