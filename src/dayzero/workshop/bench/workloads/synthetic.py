"""Random prompts and outputs of given lengths: what a server costs, free of what a data set happens to contain."""

import numpy as np

from dayzero.workshop.bench.workloads.session import Completion, Session
from dayzero.workshop.bench.workloads.writer import PromptWriter


class Synthetic:
    """One completion a session, both lengths uniform in [n (1 - spread), n (1 + spread)], at least one token.

    Outputs reach their length only if the server is asked to ignore the end-of-sequence token.
    """

    def __init__(
        self, writer: PromptWriter, *, seed: int, input_tokens: int, output_tokens: int, spread: float
    ) -> None:
        self._writer = writer
        self._seed = seed
        self._input_tokens = input_tokens
        self._output_tokens = output_tokens
        self._spread = spread

    def session(self, index: int) -> Session:
        rng = np.random.default_rng([self._seed, index])
        input_tokens = self._length(self._input_tokens, rng)
        output_tokens = self._length(self._output_tokens, rng)
        return Session((Completion(self._writer.write((input_tokens, rng)), max_tokens=output_tokens),), group=index)

    def _length(self, mean: int, rng: np.random.Generator) -> int:
        lowest = max(1, round(mean * (1 - self._spread)))
        return int(rng.integers(lowest, max(lowest, round(mean * (1 + self._spread))), endpoint=True))
