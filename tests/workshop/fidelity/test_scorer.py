"""The harness sees what the engine would serve."""

from pathlib import Path

import pytest
import torch

from dayzero.core.spec import EngineConfig
from dayzero.errors import ConfigError
from dayzero.kernels.registry import select_reference
from dayzero.workshop.fidelity.scorer import SLICE_ROWS, ModelScorer, open_scorer
from tests.golden.tiny import TINY, save

pytestmark = pytest.mark.model
TOKENS = torch.randint(3, 300, (300,), generator=torch.Generator().manual_seed(0)).tolist()


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("tiny")
    return folder, save(TINY[request.param], folder)


def opened(folder: Path, **more: object) -> ModelScorer:
    config = EngineConfig(model=str(folder), dtype="float32", kernels="torch", threads=1)
    return open_scorer(config, passage_tokens=320, **more)


def all_logits(scorer: ModelScorer, tokens: list[int] = TOKENS) -> torch.Tensor:
    return torch.cat([part.clone() for part in scorer.logits(tokens)])


def test_logits_are_those_of_transformers_at_every_position(tiny):
    folder, theirs = tiny
    with torch.no_grad():
        expected = theirs(torch.tensor([TOKENS])).logits[0]
    torch.testing.assert_close(all_logits(opened(folder)), expected, rtol=1e-3, atol=1e-3)


def test_slices_are_bounded_and_cover_every_row(tiny):
    heights = [len(part) for part in opened(tiny[0]).logits(TOKENS)]
    assert heights == [SLICE_ROWS, SLICE_ROWS, 300 - 2 * SLICE_ROWS]


def test_a_passage_does_not_see_the_one_before(tiny):
    scorer = opened(tiny[0])
    alone = all_logits(scorer, TOKENS[:40])
    all_logits(scorer, TOKENS[::-1])
    assert torch.equal(all_logits(scorer, TOKENS[:40]), alone)


def test_chunks_change_no_bit(tiny):
    scorer = opened(tiny[0])
    assert torch.equal(all_logits(scorer.in_chunks(7)), all_logits(scorer))


def test_the_reference_kernels_can_be_asked_for(tiny):
    reference = all_logits(opened(tiny[0], kernels=select_reference()))
    torch.testing.assert_close(reference, all_logits(opened(tiny[0])), rtol=1e-4, atol=1e-4)


def test_a_passage_longer_than_the_context_is_refused(tiny):
    with pytest.raises(ConfigError, match=r"passages too long: 2000 tokens \(the model's context: 1024\)"):
        open_scorer(EngineConfig(model=str(tiny[0]), dtype="float32", kernels="torch"), passage_tokens=2000)
