"""Native sampling draws what the reference draws, and tells what numpy tells."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from dayzero.core.sampling import SamplingParams
from dayzero.kernels.native.extension import INSTRUCTION_SETS, module
from dayzero.kernels.native.vocabulary import NativeVocabulary
from dayzero.sampling.answers import Answer, Asked, Told, answer
from dayzero.sampling.native import NativeSampler
from dayzero.sampling.reference import sample_row
from dayzero.sampling.sampler import NOT_FINITE, Row, sample
from tests.sampling.cases import random_logits, random_row

VOCAB_SIZE = 49_152


@pytest.fixture(scope="module", params=INSTRUCTION_SETS)
def vocabulary(request: pytest.FixtureRequest) -> NativeVocabulary:
    native = module()
    if native is None:
        pytest.skip("the native kernels are not built")
    if native.missing(request.param):
        pytest.skip(f"native/{request.param} needs {native.missing(request.param)}")
    return NativeVocabulary(native, native.ThreadPool(2, 50), request.param)


def answered(vocabulary: NativeVocabulary, logits: Tensor, asked: Sequence[Asked]) -> list[Answer]:
    sampler = NativeSampler(vocabulary, logits.shape[1])
    logits = logits.contiguous()
    return sampler.answer(logits.data_ptr(), sampler.packed(asked))


def tokens(vocabulary: NativeVocabulary, logits: Tensor, rows: Sequence[Row]) -> list[int]:
    return [one.token for one in answered(vocabulary, logits, rows)]


def expected(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    return [sample_row(x, row) for x, row in zip(logits.numpy(), rows, strict=True)]


def num_doubtful(vocabulary: NativeVocabulary, logits: Tensor, rows: Sequence[Row]) -> int:
    sampler = NativeSampler(vocabulary, logits.shape[1])
    packed = b"".join(sampler.packed(rows).rows)
    found: list[int] = vocabulary.answer(logits.data_ptr(), logits.shape[1], packed).tokens
    return found.count(vocabulary.DOUBTFUL)


def model_logits(num_rows: int, seed: int = 0) -> Tensor:
    """[num_rows, V] a few likely tokens over a normal floor: the look of a language model."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((num_rows, VOCAB_SIZE)) * 2.5
    for row in logits:
        row[rng.integers(0, VOCAB_SIZE, 40)] += rng.exponential(4.0, 40) + 8.0
    return torch.from_numpy(logits.astype(np.float32))


def a_row(seed: int = 1, **params: object) -> Row:
    return Row(SamplingParams(max_tokens=9, seed=seed, **params), (), ())


def random_mask(rng: np.random.Generator, vocab_size: int, share: float) -> np.ndarray:
    words = np.zeros(-(-vocab_size // 32) * 32, dtype=np.uint8)
    words[:vocab_size] = rng.random(vocab_size) < share
    return np.packbits(words, bitorder="little").view(np.int32)


@pytest.mark.parametrize("seed", range(12))
def test_the_token_is_the_references(vocabulary: NativeVocabulary, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for vocab_size in [1, 2, 31, 32, 33, 64, 300, 3000] * 4:
        num_rows = int(rng.integers(1, 7))
        logits = torch.from_numpy(np.stack([random_logits(rng, vocab_size) for _ in range(num_rows)]))
        rows = [random_row(rng, vocab_size) for _ in range(num_rows)]
        assert tokens(vocabulary, logits, rows) == expected(logits, rows)


@pytest.mark.parametrize("size", [VOCAB_SIZE, 151_936])
def test_the_token_of_a_real_sized_row_is_the_references(vocabulary: NativeVocabulary, size: int) -> None:
    rng = np.random.default_rng(size)
    logits = torch.cat([model_logits(12)] * -(-size // VOCAB_SIZE), 1)[:, :size].clone()
    logits[8:] = logits[8:] / 8  # nearly flat: tens of thousands survive
    rows = [random_row(rng, size) for _ in range(8)] + [a_row(temperature=t, top_p=0.9) for t in (0.7, 1.0, 1.5, 2.0)]
    assert tokens(vocabulary, logits, rows) == expected(logits, rows)


ORDINARY = [
    {},
    {"temperature": 0.7},
    {"temperature": 0.7, "top_p": 0.95},
    {"temperature": 1.5, "top_p": 0.95},
    {"top_k": 40},
    {"top_k": 40, "top_p": 0.9},
    {"min_p": 0.05},
    {"temperature": 1.3, "top_k": 200, "top_p": 0.99, "min_p": 1e-3},
]


@pytest.mark.parametrize("params", ORDINARY)
def test_ordinary_rows_draw_the_references_token_and_leave_no_doubt(
    vocabulary: NativeVocabulary, params: dict[str, float]
) -> None:
    logits = model_logits(40, seed=7)
    rows = [a_row(seed, **params) for seed in range(len(logits))]
    assert tokens(vocabulary, logits, rows) == sample(logits, rows)
    assert num_doubtful(vocabulary, logits, rows) == 0


def test_a_share_that_rounding_decides_is_decided_by_the_reference(vocabulary: NativeVocabulary) -> None:
    """Half of the mass is exactly the likeliest token's: whether the next may be drawn hangs on the last bits."""
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]])).repeat(20, 1)
    rows = [a_row(seed, top_p=0.5) for seed in range(20)]
    assert num_doubtful(vocabulary, logits, rows) == 20
    assert tokens(vocabulary, logits, rows) == expected(logits, rows)


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {}, {"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}])
def test_a_mask_is_the_references(vocabulary: NativeVocabulary, params: dict[str, float]) -> None:
    rng = np.random.default_rng(3)
    for vocab_size in (1, 31, 32, 33, 300):
        for share in (0.0, 0.1, 0.9, 1.0):
            logits = torch.from_numpy(np.stack([random_logits(rng, vocab_size) for _ in range(4)]))
            rows = [
                Row(
                    SamplingParams(max_tokens=9, seed=seed, **params),
                    (),
                    (),
                    allowed=random_mask(rng, vocab_size, share),
                )
                for seed in range(4)
            ]
            assert tokens(vocabulary, logits, rows) == expected(logits, rows) == sample(logits, rows)


def test_a_mask_and_penalties_act_together(vocabulary: NativeVocabulary) -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    params = SamplingParams(max_tokens=9, seed=1, temperature=0.0, frequency_penalty=2.0, logprobs=1)
    row = Row(params, (), (1, 1), allowed=np.array([0b0110], dtype=np.int32))
    (found,) = answered(vocabulary, logits, [row])
    assert found.token == 2
    assert found.logprob is not None
    assert (found.logprob.rank, found.logprob.top[0][0]) == (3, 0)


def test_a_ban_acts_beside_a_mask_unless_it_would_leave_nothing(vocabulary: NativeVocabulary) -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    params = SamplingParams(max_tokens=9, seed=1, temperature=0.0, banned_tokens=(0, 1), banned_until=1)
    for words, token in ((0b0111, 2), (0b0011, 0), (0b0010, 1)):
        row = Row(params, (), (), allowed=np.array([words], dtype=np.int32))
        assert tokens(vocabulary, logits, [row]) == expected(logits, [row]) == sample(logits, [row]) == [token]


def test_a_mask_of_another_vocabulary_is_a_defect(vocabulary: NativeVocabulary) -> None:
    row = Row(SamplingParams(max_tokens=9, seed=1), (), (), allowed=np.zeros(2, dtype=np.int32))
    with pytest.raises(AssertionError):
        answered(vocabulary, torch.zeros(1, 65), [row])


def test_tokens_and_log_probabilities_are_numpys(vocabulary: NativeVocabulary) -> None:
    """Told rows, drawn ones with and without log-probabilities, penalised ones and one that is not finite."""
    logits = model_logits(7)
    logits[5, 9] = math.nan
    asked = [
        Told(5, 0),
        a_row(logprobs=20),
        a_row(top_p=0.9),
        a_row(presence_penalty=0.5, min_tokens=2, logit_bias={3: 50.0}, logprobs=2, top_k=9),
        a_row(temperature=0.0, logprobs=0),
        a_row(logprobs=3),
        Told(VOCAB_SIZE - 1, 20),
    ]
    found, numpys = answered(vocabulary, logits, asked), answer(logits, asked)
    assert [one.token for one in found] == [one.token for one in numpys]
    assert found[5] == Answer(NOT_FINITE)
    for mine, theirs in zip(found, numpys, strict=True):
        assert (mine.logprob is None) == (theirs.logprob is None)
        if mine.logprob is not None and theirs.logprob is not None:
            assert (mine.logprob.token, mine.logprob.rank) == (theirs.logprob.token, theirs.logprob.rank)
            assert [token for token, _ in mine.logprob.top] == [token for token, _ in theirs.logprob.top]
            values = [mine.logprob.logprob, *(value for _, value in mine.logprob.top)]
            others = [theirs.logprob.logprob, *(value for _, value in theirs.logprob.top)]
            assert values == pytest.approx(others, rel=1e-6, abs=1e-6)


def test_a_row_whose_token_is_not_finite_after_penalties_tells_nothing(vocabulary: NativeVocabulary) -> None:
    asked = [a_row(min_tokens=1, stop_token_ids=(0, 1), logprobs=1)]
    assert answered(vocabulary, torch.zeros(1, 2), asked) == [Answer(NOT_FINITE)]


def test_an_answer_does_not_depend_on_the_batch(vocabulary: NativeVocabulary) -> None:
    logits = model_logits(33)
    kinds = [{}, {"top_p": 0.9, "logprobs": 2}, {"presence_penalty": 0.5, "logprobs": 1}, {"temperature": 0.0}]
    asked: list[Asked] = [a_row(seed, **kinds[seed % 4]) for seed in range(33)]
    asked[7] = Told(11, 3)
    together = answered(vocabulary, logits, asked)
    assert [answered(vocabulary, logits[i : i + 1], asked[i : i + 1])[0] for i in range(33)] == together
    order = np.random.default_rng(1).permutation(33).tolist()
    assert answered(vocabulary, logits[order], [asked[i] for i in order]) == [together[i] for i in order]
