"""A step's answers are those that numpy gives to the model's own logits, whichever way the model runs."""

import pytest
import torch

from dayzero.core.sampling import SamplingParams
from dayzero.engine.model import HEAD_ROWS, Layout, Model, bind
from dayzero.kernels.native.backend import NativeKernels
from dayzero.sampling.answers import Asked, Told, answer
from dayzero.sampling.sampler import Row
from tests.equivalence.loaded import Loaded
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

SIZE, BLOCKS = 16, 40


@pytest.fixture(scope="module", params=["native", "torch"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp(request.param)
    save(TINY["llama untied, one KV head"], folder)
    loaded = Loaded(folder, torch.bfloat16, max_context=1024, wish="auto" if request.param == "native" else "torch")
    if request.param == "native" and not isinstance(loaded.kernels, NativeKernels):
        pytest.skip("native kernels cannot serve here")
    store = loaded.store([BLOCKS] * len(loaded.groups), SIZE)
    return bind(loaded.family, loaded.weights, loaded.kernels, store, loaded.groups, SIZE)


def a_step(num_tokens: int, sample_at: list[int]) -> Layout:
    """Of one request, from its start."""
    tokens = torch.randint(3, VOCAB_SIZE, (num_tokens,), generator=torch.Generator().manual_seed(1)).tolist()
    return Layout(tokens, sample_at, [0, num_tokens], [0], [[list(range(1, BLOCKS))]])


def a_row(seed: int, **params: object) -> Row:
    return Row(SamplingParams(max_tokens=9, seed=seed, **params), (1, 2), (3,), eos_token_ids=(2,))


def numpys(model: Model, layout: Layout, asked: list[Asked]) -> list[object]:
    rows = model.forward(layout).rows.clone()
    parts = [slice(start, start + 50) for start in range(0, len(asked), 50)]
    return [one for part in parts for one in answer(model.logits(rows[part]), asked[part])]


def test_what_is_asked_of_a_step_is_answered_from_its_logits(model: Model) -> None:
    asked: list[Asked] = [
        a_row(1, temperature=0.0),
        a_row(2),
        Told(7, 0),
        a_row(3, temperature=0.7, top_p=0.9),
        a_row(4, repetition_penalty=1.3, min_tokens=3),
    ]
    layout = a_step(20, [3, 4, 9, 18, 19])
    found = model.answer(layout, asked)
    expected = numpys(model, layout, asked)
    assert found.not_finite == []
    assert [one.token for one in found.rows] == [one.token for one in expected]
    told, theirs = found.rows[2].logprob, expected[2].logprob
    assert (told.token, told.rank, told.top) == (7, theirs.rank, ())
    assert told.logprob == pytest.approx(theirs.logprob, abs=1e-5)


def test_more_rows_than_the_head_holds_are_answered_all_the_same(model: Model) -> None:
    count = 2 * HEAD_ROWS + 5
    asked: list[Asked] = [a_row(seed) if seed % 2 else Told(seed, 2) for seed in range(count)]
    layout = a_step(count, list(range(count)))
    found, expected = model.answer(layout, asked).rows, numpys(model, layout, asked)
    assert [one.token for one in found] == [one.token for one in expected]
    assert [one.logprob.rank for one in found[::2]] == [one.logprob.rank for one in expected[::2]]


def test_a_step_that_nothing_is_asked_of_has_no_answers(model: Model) -> None:
    assert model.answer(a_step(5, []), []).rows == []
