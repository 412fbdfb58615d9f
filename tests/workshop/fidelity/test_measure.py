"""All models in step: paired, bounded, and loud about what is not finite."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dayzero.core.spec import EngineConfig
from dayzero.errors import InternalError
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.native.backend import obstacle
from dayzero.kernels.registry import select_reference
from dayzero.workshop.fidelity.divergence import Golden
from dayzero.workshop.fidelity.estimate import Fidelity, estimate
from dayzero.workshop.fidelity.measure import measure
from dayzero.workshop.fidelity.passages import Passage
from dayzero.workshop.fidelity.scorer import SLICE_ROWS, ModelScorer, Scorer, open_scorer
from tests.golden.tiny import TINY, save

VOCAB = 50
SLOPE = torch.linspace(-1, 1, VOCAB)


@dataclass
class Sloped:
    """Logits that a token draws, tilted: its KL is that of the tilt. One buffer, as native models have."""

    tilt: float
    bad_token: int = -1

    def logits(self, tokens: Sequence[int]) -> Iterator[Tensor]:
        buffer = torch.empty(SLICE_ROWS, VOCAB)
        for start in range(0, len(tokens), SLICE_ROWS):
            part = tokens[start : start + SLICE_ROWS]
            for row, token in enumerate(part):
                noise = torch.randn(VOCAB, generator=torch.Generator().manual_seed(token))
                buffer[row] = torch.nan if token == self.bad_token else noise + self.tilt * SLOPE
            yield buffer[: len(part)]


PASSAGES = [Passage("a", tuple(range(300))), Passage("b", (7,)), Passage("a", tuple(range(300, 310)))]


def test_rows_are_those_of_whole_logits_whatever_the_slices():
    golden, served = Sloped(0), Sloped(0.5)
    rows = measure(golden, {"x": served}, PASSAGES)["x"]
    assert [(part.document, len(part.kl)) for part in rows] == [("a", 300), ("b", 1), ("a", 10)]
    for part, passage in zip(rows, PASSAGES, strict=True):
        whole = [torch.cat([x.clone() for x in side.logits(passage.tokens)]) for side in (golden, served)]
        assert np.array_equal(part.kl, Golden.of(whole[0]).kl(whole[1]).numpy())
        assert np.array_equal(part.agrees, (whole[0].argmax(-1) == whole[1].argmax(-1)).numpy())


def test_models_are_measured_alike_alone_or_together():
    together = measure(Sloped(0), {"x": Sloped(0.5), "y": Sloped(0.1)}, PASSAGES)
    alone = measure(Sloped(0), {"y": Sloped(0.1)}, PASSAGES)
    assert all(np.array_equal(a.kl, b.kl) for a, b in zip(together["y"], alone["y"], strict=True))
    assert estimate(together["y"]).kl.mean < estimate(together["x"]).kl.mean


def test_progress_is_told_in_tokens():
    told: list[tuple[int, int]] = []
    measure(Sloped(0), {}, PASSAGES, lambda done, total: told.append((done, total)))
    assert told == [(300, 311), (301, 311), (311, 311)]


@pytest.mark.parametrize(
    ("golden", "served", "message"),
    [
        (Sloped(0), Sloped(0, bad_token=7), "logits of x not finite: in a"),
        (Sloped(0, bad_token=305), Sloped(0), "golden logits not finite: in a"),
    ],
)
def test_a_logit_that_is_not_finite_stops_the_measurement_by_name(golden: Scorer, served: Scorer, message: str):
    with pytest.raises(InternalError, match=message):
        measure(golden, {"x": served}, PASSAGES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    save(TINY["llama"], path)
    return path


def opened(folder: Path, dtype: str, kernels: str = "torch", precision: str = "auto") -> ModelScorer:
    config = EngineConfig(model=str(folder), dtype=dtype, kernels=kernels, precision=precision, threads=1)
    return open_scorer(config, passage_tokens=256)


def fidelity(golden: Scorer, served: Scorer) -> Fidelity:
    tokens = torch.randint(3, 300, (10, 200), generator=torch.Generator().manual_seed(0)).tolist()
    return estimate(measure(golden, {"x": served}, [Passage(str(i), tuple(row)) for i, row in enumerate(tokens)])["x"])


@pytest.mark.model
def test_the_golden_run_in_other_chunks_is_the_golden_run(folder: Path):
    golden = opened(folder, "float32")
    found = fidelity(golden, golden.in_chunks(48))
    assert (found.kl_max, found.top_1_agreement.mean) == (0.0, 1.0)


@pytest.mark.model
def test_the_golden_run_by_other_kernels_is_the_noise_floor(folder: Path):
    config = EngineConfig(model=str(folder), dtype="float32", kernels="torch", threads=1)
    other = open_scorer(config, passage_tokens=256, kernels=select_reference())
    assert fidelity(opened(folder, "float32"), other).kl.mean < 1e-9


NOT_NATIVE = obstacle(torch.bfloat16, HeadLayout(6, 2, 16), 16)
native = pytest.mark.skipif(bool(NOT_NATIVE), reason=NOT_NATIVE)


@pytest.mark.model
@pytest.mark.parametrize(
    ("kernels", "precision", "most"),
    [
        ("torch", "bf16", 1e-2),
        pytest.param("native", "bf16", 1e-2, marks=native),
        pytest.param("native", "int8", 0.1, marks=native),
        pytest.param("native", "nvfp4", 2.0, marks=native),
    ],
)
def test_a_served_model_is_near_the_golden_one_but_not_it(folder: Path, kernels: str, precision: str, most: float):
    found = fidelity(opened(folder, "float32"), opened(folder, "bfloat16", kernels, precision))
    assert 1e-6 < found.kl.mean < most
    assert found.kl.mean > most / 1000  # another precision would be seen
    assert found.top_1_agreement.mean < 1.0
