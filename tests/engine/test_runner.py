"""From spans to tensors and back, on tiny seeded models."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dayzero.core.events import Logprob
from dayzero.core.sampling import SamplingParams
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.model import HEAD_ROWS, EagerModel
from dayzero.engine.request import Request
from dayzero.engine.runner import ModelRunner
from dayzero.kv.store import KVStore
from tests.golden.forward import Model
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

SIZE = 8  # slots of a block
BLOCKS = 60


class Watched:
    """A runner, the steps that its model was given, and the rows that its head was."""

    def __init__(self, model: Model) -> None:
        self.groups = model.family.groups(model.shape, 4 * model.shape.heads.head_dim)
        self.store = KVStore(
            self.groups, [BLOCKS] * len(self.groups), SIZE, heads=model.shape.heads, dtype=torch.float32
        )
        self.steps = []
        self.head_rows = []
        self.spoil = lambda logits: logits

        def forward(weights, step, *others):
            self.steps.append(step)
            return model.family.forward(weights, step, *others)

        def logits(weights, hidden, kernels):
            self.head_rows.append(len(hidden))
            return self.spoil(model.family.logits(weights, hidden, kernels))

        family = replace(model.family, forward=forward, logits=logits)
        eager = EagerModel(family, model.weights, model.kernels, self.store, self.groups, SIZE)
        self.runner = ModelRunner(eager, eos_token_ids=(2,))

    def run(self, *spans: Span) -> list[Outcome]:
        return self.runner.launch(Batch(1, spans)).collect()


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return _model("llama", tmp_path_factory.mktemp("llama"), reference=False)


@pytest.fixture(scope="module")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return _model("gemma3", tmp_path_factory.mktemp("gemma3"), reference=True)


def _model(name: str, folder: Path, *, reference: bool) -> Model:
    save(TINY[name], folder)
    return Model(folder, torch.float32, reference=reference)


def tokens(count: int, seed: int = 0) -> list[int]:
    return torch.randint(3, VOCAB_SIZE, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def request(
    prompt: Sequence[int], *tables: Sequence[int], output: Sequence[int] = (), max_tokens: int = 9, **params: object
) -> Request:
    return Request(
        id=0,
        prompt=list(prompt),
        output=list(output),
        params=SamplingParams(max_tokens=max_tokens, seed=7, temperature=0.0, **params),
        salt="",
        policy_version="",
        block_tables=[list(table) for table in tables],
    )


def whole(request: Request) -> Span:
    return Span(request, 0, request.num_tokens)


def test_a_step_holds_the_spans_one_after_the_other(gemma3: Model) -> None:
    """A chunk in the middle of a prompt, a token behind an output, and a whole prompt; a table for each group."""
    watched = Watched(gemma3)
    chunked = request(tokens(20), [5, 6, 7], [9, 8, 7])
    decoding = request([3, 4], [11, 12], [0, 13], output=[10, 20, 30, 40, 50, 60, 70])
    fresh = request([30, 31, 32], [21], [22])
    spans = (Span(chunked, 6, 5), Span(decoding, 8, 1), Span(fresh, 0, 3))
    watched.runner.launch(Batch(1, spans))
    (step,) = watched.steps
    assert step.tokens.tolist() == [*tokens(20)[6:11], 70, 30, 31, 32]
    assert step.positions.tolist() == [6, 7, 8, 9, 10, 8, 0, 1, 2]
    assert [slots.tolist() for slots in step.slots] == [
        [46, 47, 48, 49, 50, 96, 168, 169, 170],
        [78, 79, 64, 65, 66, 104, 176, 177, 178],
    ]
    assert [plan[:2] for plan in step.plans] == [([0, 5, 6, 9], [6, 8, 0])] * 2
    assert [plan[2] for plan in step.plans] == [[[5, 6, 7], [11, 12], [21]], [[9, 8, 7], [0, 13], [22]]]
    assert [plan[3] for plan in step.plans] == [group.window for group in watched.groups]
    assert step.sample_at.tolist() == [5, 8]


def test_rows_are_wanted_where_a_prompts_log_probability_shows(llama: Model) -> None:
    watched = Watched(llama)
    first, last = (request(tokens(12), [1, 2], prompt_logprobs=0) for _ in range(2))
    scored = request(tokens(5), [3], prompt_logprobs=0, max_tokens=0)
    watched.runner.launch(Batch(1, (Span(first, 0, 4), Span(last, 8, 4), whole(scored))))
    assert watched.steps[0].sample_at.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    watched.runner.launch(Batch(2, (whole(request([5], [4], prompt_logprobs=0, max_tokens=0)),)))
    assert watched.steps[1].sample_at.tolist() == []


def test_only_the_span_that_reaches_the_last_token_draws_one(llama: Model) -> None:
    watched = Watched(llama)
    chunked, decoding = request(tokens(9), [1, 2], logprobs=1), request([3], [3], output=[4], logprobs=1)
    silent, drawn = watched.run(Span(chunked, 0, 8), Span(decoding, 1, 1))
    assert silent == Outcome()
    assert len(drawn.tokens) == 1
    assert drawn.logprobs is not None
    assert [logprob.token for logprob in drawn.logprobs] == list(drawn.tokens)
    assert drawn.logprobs[0].rank == 1
    assert watched.head_rows == [1]


def expected_logprobs(model: Model, prompt: Sequence[int], num_top: int) -> list[Logprob]:
    """By the obvious way: all logits at once."""
    values = torch.log_softmax(model.logits(prompt, [len(prompt)]), -1)[:-1]
    found = []
    for row, token in zip(values, prompt[1:], strict=True):
        top = sorted(enumerate(row.tolist()), key=lambda pair: (-pair[1], pair[0]))[:num_top]
        found.append(Logprob(token, row[token].item(), 1 + int((row > row[token]).sum()), tuple(top)))
    return found


def prompt_logprobs(watched: Watched, prompt: Sequence[int], chunks: Sequence[int]) -> list[Logprob]:
    told: list[Logprob] = []
    tables = (range(1, BLOCKS), range(BLOCKS - 1, 0, -1))
    scored = request(prompt, *tables[: len(watched.groups)], prompt_logprobs=2)
    for length in chunks:
        (outcome,) = watched.run(Span(scored, scored.num_computed, length))
        assert outcome.prompt_logprobs is not None
        told.extend(outcome.prompt_logprobs)
        scored.num_computed += length
    assert scored.num_computed == len(prompt)
    return told


@pytest.mark.parametrize("chunks", [[300], [1, 299], [128, 128, 44], [7] * 42 + [6]], ids=len)
def test_log_probabilities_of_a_prompt_are_the_models_own_however_it_is_chunked(
    llama: Model, chunks: list[int]
) -> None:
    prompt = tokens(300)
    watched = Watched(llama)
    assert prompt_logprobs(watched, prompt, chunks) == expected_logprobs(llama, prompt, 2)
    assert max(watched.head_rows) <= HEAD_ROWS
    assert sum(watched.head_rows) == 300


def test_log_probabilities_agree_with_the_reference_kernels(gemma3: Model) -> None:
    prompt = tokens(70)
    told = prompt_logprobs(Watched(gemma3), prompt, [40, 30])
    expected = expected_logprobs(gemma3, prompt, 2)
    assert [one.token for one in told] == [one.token for one in expected]
    for mine, theirs in zip(told, expected, strict=True):
        assert mine.logprob == pytest.approx(theirs.logprob, abs=1e-4)


def test_a_prompt_that_is_only_scored_draws_nothing(llama: Model) -> None:
    watched = Watched(llama)
    prompt = tokens(20)
    (outcome,) = watched.run(whole(request(prompt, [1, 2, 3], prompt_logprobs=2, max_tokens=0)))
    assert outcome.tokens == ()
    assert list(outcome.prompt_logprobs or ()) == expected_logprobs(llama, prompt, 2)
    assert watched.head_rows == [19]


def test_greedy_is_the_likeliest_token_of_the_last_row(llama: Model) -> None:
    prompt = tokens(33)
    (outcome,) = Watched(llama).run(whole(request(prompt, range(1, 6))))
    assert outcome.tokens == (int(llama.logits(prompt, [33])[-1].argmax()),)


def test_prompt_and_output_are_one_sequence_and_count_apart(llama: Model) -> None:
    """A resumed request: its tokens are computed alike, its penalties see only its output."""
    prompt, output = tokens(20), tokens(7, seed=1)
    (resumed,) = Watched(llama).run(whole(request(prompt, range(1, 5), output=output)))
    (fresh,) = Watched(llama).run(whole(request([*prompt, *output], range(1, 5))))
    assert resumed.tokens == fresh.tokens


@pytest.mark.parametrize("said", [0, 1])
def test_penalties_on_output_leave_the_prompt_alone(llama: Model, said: int) -> None:
    """The last token is an output or not; a bias lets only it and another one win."""
    bias = {"logit_bias": {9: 90.0, 10: 89.0}, "frequency_penalty": 2.0}
    prompt, output = tokens(20), [9] * 60
    params = request([*prompt, *output[said * 60 :]], range(1, 12), output=output[: said * 60], max_tokens=90, **bias)
    (outcome,) = Watched(llama).run(whole(params))
    assert outcome.tokens == ((10,) if said else (9,))


def test_a_block_is_cleared_as_it_is_opened_and_no_other(llama: Model) -> None:
    watched = Watched(llama)
    pool = watched.store.layer(0)
    pool[1:] = torch.nan
    opened = request(tokens(20), [3, 4, 5])
    watched.run(Span(opened, 0, 12))
    assert pool[3].isfinite().all()
    assert pool[4, :4].all()
    assert not pool[4, 4:].any()
    assert pool[5].isnan().all()
    assert pool[2].isnan().all()
    before = pool[4, :4].clone()
    watched.run(Span(opened, 12, 2))
    assert pool[4, :4].equal(before)
    assert pool[4, 4:6].all()
    watched.run(Span(opened, 14, 2))
    assert pool[5].isnan().all(), "a block that the span fills to the brim, and the one behind it"


def test_a_row_without_finite_logits_ends_its_request_and_no_other(llama: Model) -> None:
    watched = Watched(llama)
    spans = [whole(request(tokens(4, seed), [1 + seed])) for seed in range(3)]
    sound = watched.run(*spans)

    def spoil(logits: torch.Tensor) -> torch.Tensor:
        logits = logits.clone()
        logits[1] = torch.inf
        return logits

    watched.spoil = spoil
    first, spoiled, last = watched.run(*spans)
    assert (first, last) == (sound[0], sound[2])
    assert spoiled == Outcome(error="no finite logits up to position 4")


def test_log_probabilities_that_are_not_numbers_are_an_error(llama: Model) -> None:
    watched = Watched(llama)
    watched.spoil = lambda logits: logits * torch.nan
    (outcome,) = watched.run(whole(request(tokens(4), [1], prompt_logprobs=1, max_tokens=0)))
    assert outcome == Outcome(error="no finite logits up to position 4")
