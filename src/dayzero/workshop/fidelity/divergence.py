"""KL and top-1 agreement of rows of logits, in float64: the least KL of interest is below what float32 resolves."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Golden:
    """What a comparison needs of golden logits [N, V], computed once for all that are compared with them.

    probabilities   [N, V] float64
    log_likelihood  [N], the mean of their logarithm under themselves: minus the entropy
    top_1           [N], ties go to the lowest id
    """

    probabilities: Tensor
    log_likelihood: Tensor
    top_1: Tensor

    @classmethod
    def of(cls, logits_NV: Tensor) -> "Golden":
        logits = logits_NV.double()
        probabilities = torch.softmax(logits, -1)
        return cls(probabilities, _log_likelihood(probabilities, logits), logits_NV.argmax(-1))

    def kl(self, served_NV: Tensor) -> Tensor:
        """[N] float64: KL(golden || served) in nats over the whole vocabulary.

        Exactly 0 for the same logits; not finite where a row of either side is not.
        """
        return (self.log_likelihood - _log_likelihood(self.probabilities, served_NV.double())).clamp_(min=0)

    def agrees(self, served_NV: Tensor) -> Tensor:
        """[N] bool: both have the same likeliest token."""
        return served_NV.argmax(-1) == self.top_1


def _log_likelihood(probabilities_NV: Tensor, logits_NV: Tensor) -> Tensor:
    """[N]: sum over v of p(v) log softmax(logits)(v). A p of 0 counts 0 only where its logit is finite."""
    expected: Tensor = torch.linalg.vecdot(probabilities_NV, logits_NV)
    return expected - logits_NV.logsumexp(-1)
