"""The golden model and those that are compared with it over the same passages, all in step.

One slice of logits of each is held at a time; what is kept of a row are two numbers.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from torch import Tensor

from dayzero.errors import InternalError
from dayzero.workshop.fidelity.divergence import Golden
from dayzero.workshop.fidelity.estimate import Rows
from dayzero.workshop.fidelity.passages import Passage
from dayzero.workshop.fidelity.scorer import Scorer

Progress = Callable[[int, int], None]  # tokens done, tokens in all


def measure(
    golden: Scorer, served: Mapping[str, Scorer], passages: Sequence[Passage], progress: Progress = lambda *_: None
) -> dict[str, list[Rows]]:
    """For each that is served, the rows of each passage, in order: paired by construction.

    Raises InternalError that names the model and the passage where a logit is not finite.
    """
    result: dict[str, list[Rows]] = {name: [] for name in served}
    done, total = 0, sum(len(passage.tokens) for passage in passages)
    for passage in passages:
        for name, rows in _compared(golden, served, passage).items():
            result[name].append(rows)
        done += len(passage.tokens)
        progress(done, total)
    return result


def _compared(golden: Scorer, served: Mapping[str, Scorer], passage: Passage) -> dict[str, Rows]:
    streams = {name: scorer.logits(passage.tokens) for name, scorer in served.items()}
    kl: dict[str, list[Tensor]] = {name: [] for name in served}
    agrees: dict[str, list[Tensor]] = {name: [] for name in served}
    for golden_NV in golden.logits(passage.tokens):
        against = Golden.of(golden_NV)  # a copy: the next model asked may be the golden one again
        if not against.log_likelihood.isfinite().all():
            raise InternalError(f"golden logits not finite: in {passage.document}")
        for name, stream in streams.items():
            served_NV = next(stream)
            kl[name].append(against.kl(served_NV))
            agrees[name].append(against.agrees(served_NV))
            if not kl[name][-1].isfinite().all():
                raise InternalError(f"logits of {name} not finite: in {passage.document}")
    return {
        name: Rows(
            passage.document,
            np.concatenate([part.numpy() for part in kl[name]]),
            np.concatenate([part.numpy() for part in agrees[name]]),
        )
        for name in served
    }
