import dataclasses

import msgspec
import numpy as np
import pytest
import torch

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.reference import sample_row
from dayzero.sampling.sampler import NOT_FINITE, Row, sample
from tests.sampling.cases import random_logits, random_row

VOCAB_SIZE = 49_152


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def model_logits(num_rows, seed=0):
    """[num_rows, V] a few likely tokens over a normal floor, rounded to bfloat16: the look of a language model."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((num_rows, VOCAB_SIZE)) * 2.5
    for row in logits:
        row[rng.integers(0, VOCAB_SIZE, 40)] += rng.exponential(4.0, 40) + 8.0
    return torch.from_numpy(logits.astype(np.float32)).bfloat16().float()


def a_row(seed=1, prompt=(), output=(), **params):
    return Row(SamplingParams(max_tokens=9, seed=seed, **params), prompt, output)


@pytest.mark.parametrize("seed", range(6))
def test_the_token_is_the_references(seed, threads):
    rng = np.random.default_rng([seed, threads])
    for vocab_size in [1, 2, 3, 33, 64, 300, 3000] * 6:
        num_rows = int(rng.integers(1, 7))
        logits = np.stack([random_logits(rng, vocab_size) for _ in range(num_rows)])
        rows = [random_row(rng, vocab_size) for _ in range(num_rows)]
        expected = [sample_row(x, row) for x, row in zip(logits, rows, strict=True)]
        assert sample(torch.from_numpy(logits), rows) == expected


def test_the_token_of_a_real_sized_row_is_the_references(threads):
    rng = np.random.default_rng(threads)
    logits = model_logits(12, seed=threads)
    logits[8:] = logits[8:] / 8  # nearly flat: tens of thousands survive
    rows = [random_row(rng, VOCAB_SIZE) for _ in range(8)] + [a_row(temperature=t) for t in (0.7, 1.0, 1.5, 2.0)]
    assert sample(logits, rows) == [sample_row(x, row) for x, row in zip(logits.numpy(), rows, strict=True)]


@pytest.mark.parametrize(
    "params", [{}, {"temperature": 0.7, "top_p": 0.95}, {"top_k": 40}, {"min_p": 0.05}, {"temperature": 0.0}]
)
def test_a_rows_token_does_not_depend_on_the_batch(params, threads):
    logits = model_logits(33)
    rows = [a_row(seed, prompt=[1] * seed, presence_penalty=0.5 * (seed % 2), **params) for seed in range(33)]
    rows[5] = random_row(np.random.default_rng(9), VOCAB_SIZE)
    together = sample(logits, rows)
    assert [sample(logits[i : i + 1], rows[i : i + 1])[0] for i in range(33)] == together
    order = np.random.default_rng(threads).permutation(33)
    assert sample(logits[order], [rows[i] for i in order]) == [together[i] for i in order]
    assert sample(logits[::3], rows[::3]) == together[::3]


def test_logits_are_left_as_they_were():
    logits = model_logits(3)
    before = logits.clone()
    sample(logits, [a_row(min_tokens=1, logit_bias={1: 5.0}), a_row(temperature=0.0), a_row(top_p=0.5)])
    assert torch.equal(logits, before)


def test_no_rows_give_no_tokens():
    assert sample(torch.empty(0, 10), []) == []


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("num_rows", [1, 2, 3, 8, 32, 64])
def test_torchs_max_gives_the_lowest_id_among_equals(num_rows):
    """The greedy rule leans on this, which torch does not promise."""
    rng = np.random.default_rng(num_rows)
    for size in (7, 64, 1000, VOCAB_SIZE):
        levels = torch.from_numpy(rng.integers(0, 3, (num_rows, size)).astype(np.float32))
        assert levels.max(-1).indices.tolist() == levels.numpy().argmax(-1).tolist()
        assert torch.zeros(num_rows, size).max(-1).indices.tolist() == [0] * num_rows
        late = torch.zeros(num_rows, size)
        late[:, size // 2 :] = 1.0
        assert late.max(-1).indices.tolist() == [size // 2] * num_rows


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {}, {"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_a_row_that_is_not_finite_has_no_token_and_harms_no_other(params, bad):
    logits = model_logits(3)
    rows = [a_row(seed, **params) for seed in range(3)]
    expected = sample(logits, rows)
    logits[1] = -torch.inf
    if bad is not None:
        logits[1, 777] = bad
    assert sample(logits, rows) == [expected[0], NOT_FINITE, expected[2]]


def test_a_bad_logit_under_a_mask_does_not_matter():
    logits = torch.zeros(1, 4)
    logits[0, 2] = torch.nan
    assert sample(logits, [a_row(temperature=0.0, min_tokens=1, stop_token_ids=(2,))]) == [0]


def test_masking_every_token_leaves_none():
    assert sample(torch.zeros(1, 2), [a_row(min_tokens=1, stop_token_ids=(0, 1))]) == [NOT_FINITE]


def test_only_what_may_be_drawn_is_drawn():
    logits = torch.tensor([[2.0, 1.0, 2.0, 0.0, -torch.inf]]).repeat(300, 1)
    tokens = sample(logits, [a_row(seed, top_k=1) for seed in range(300)])
    assert set(tokens) == {0, 2}
    assert set(sample(logits, [a_row(seed) for seed in range(300)])) == {0, 1, 2, 3}


def test_seed_choice_attempt_and_position_each_change_the_noise():
    logits = torch.zeros(1, VOCAB_SIZE)
    row = a_row(prompt=[1, 2], output=[3])
    others = [
        dataclasses.replace(row, choice=1),
        dataclasses.replace(row, attempt=1),
        dataclasses.replace(row, output=[3, 4]),
        dataclasses.replace(row, params=msgspec.structs.replace(row.params, seed=2)),
    ]
    assert len({sample(logits, [each])[0] for each in [row, *others]}) == 5


def test_noise_depends_on_the_position_and_not_on_where_the_prompt_ends():
    logits = model_logits(1)
    assert sample(logits, [a_row(prompt=[1, 2, 3], output=[])]) == sample(logits, [a_row(prompt=[1], output=[2, 3])])


def frequencies(logits, params, num_draws):
    """How often each token comes at `num_draws` positions of one request."""
    rows = [Row(params, range(position), ()) for position in range(num_draws)]
    return np.bincount(sample(logits.expand(num_draws, -1), rows), minlength=logits.shape[-1])


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_frequencies_are_those_of_the_softmax(temperature):
    logits = torch.randn(1, 64, generator=torch.Generator().manual_seed(0))
    params = SamplingParams(max_tokens=9, seed=11, temperature=temperature)
    expected = torch.softmax(logits.double() / temperature, -1)[0].numpy() * 20_000
    counts = frequencies(logits, params, 20_000)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 63 + 5 * (2 * 63) ** 0.5


def test_frequencies_within_top_p_are_those_of_the_softmax_renormalised():
    logits = torch.log(torch.tensor([[0.05, 0.3, 0.02, 0.2, 0.2, 0.1, 0.13]]))
    counts = frequencies(logits, SamplingParams(max_tokens=9, seed=5, top_p=0.8), 20_000)
    kept = np.array([0.0, 0.3, 0.0, 0.2, 0.2, 0.0, 0.13])
    expected = 20_000 * kept / kept.sum()
    assert counts[kept == 0].sum() == 0
    assert (((counts - expected) ** 2)[kept > 0] / expected[kept > 0]).sum() < 3 + 5 * (2 * 3) ** 0.5
