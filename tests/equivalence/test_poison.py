"""A request whose logits are not finite ends alone: its neighbours and those who get its blocks never notice."""

import random
from collections.abc import Iterator

import pytest
import torch

from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.wire.messages import Submit
from tests.equivalence.batching import Known, known_requests
from tests.equivalence.loaded import POLICY_VERSION, Loaded, Sizes, Traffic
from tests.golden.tiny import TINY, Tiny, build

pytestmark = pytest.mark.model

POISON = 7  # a token whose embedding is NaN


@pytest.fixture(scope="module", params=["llama untied, one KV head", "gemma3"])
def poisoned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    tiny = TINY[request.param]
    folder = tmp_path_factory.mktemp("poisoned")
    model = build(Tiny(tiny.config, {**tiny.options, "tie_word_embeddings": False}, tiny.norm_mean))
    with torch.no_grad():
        model.get_input_embeddings().weight[POISON] = float("nan")
    model.save_pretrained(folder)
    return Loaded(folder, torch.float32, max_context=1024)


@pytest.fixture(scope="module")
def healthy(poisoned: Loaded) -> list[Known]:
    vocabulary = [token for token in range(poisoned.shape.vocab_size) if token != POISON]
    stem = random.Random(4).choices(vocabulary, k=90)
    known = known_requests(poisoned, [stem], count=12, max_prompt=90, max_tokens=10)
    return [one for one in known if POISON not in (*one.submit.prompt, *one.answer.tokens)]


def submits(healthy: list[Known], poison_at: int) -> Iterator[Submit]:
    """Poisoned and healthy requests in turn."""
    for i, one in enumerate(healthy):
        prompt = list(range(10, 60))
        prompt[poison_at] = POISON
        params = SamplingParams(max_tokens=5, seed=0, temperature=0.0)
        common = {"salt": "tenant", "policy_version": POLICY_VERSION}
        yield Submit(request_id=1000 + i, prompt=prompt, params=params, **common)
        yield Submit(
            request_id=i, prompt=one.submit.prompt, params=one.submit.params, choice=one.submit.choice, **common
        )


@pytest.mark.parametrize(
    ("poison_at", "max_step_tokens", "prefix_cache"),
    [(0, 16, True), (20, 512, False), (49, 16, False), (49, 512, True)],
)
def test_a_poisoned_request_ends_alone(
    poisoned: Loaded, healthy: list[Known], poison_at: int, max_step_tokens: int, prefix_cache: bool
) -> None:
    sizes = Sizes(
        num_blocks=tuple(1 + 8 for _ in poisoned.groups),  # every block changes hands
        prefix_cache=prefix_cache,
        max_step_tokens=max_step_tokens,
        max_requests=4,
    )
    traffic = Traffic(poisoned.engine(sizes))
    for submit in submits(healthy, poison_at):
        traffic.submit(submit)
    traffic.drain()
    for request_id, answer in traffic.answers().items():
        if request_id >= 1000:
            assert (answer.tokens, answer.finish) == ((), FinishReason.ERROR)
        else:
            assert answer == healthy[request_id].answer
