"""Groups of prompts with a common beginning, as behind one system prompt or one document.

Source: the shape is inference-perf's `shared_prefix` (groups, prefix length, question length).
"""

import numpy as np

from dayzero.workshop.bench.workloads.session import Completion, Session
from dayzero.workshop.bench.workloads.writer import PromptWriter

_PREFIX, _QUESTION = 0, 1  # which part of a prompt a random stream is for


class SharedPrefix:
    """One completion a session; sessions go round the groups, so a group's prefix is asked for once in `num_groups`."""

    def __init__(
        self, writer: PromptWriter, *, seed: int, num_groups: int, prefix_tokens: int, question_tokens: int
    ) -> None:
        self._writer = writer
        self._seed = seed
        self._num_groups = num_groups
        self._prefix_tokens = prefix_tokens
        self._question_tokens = question_tokens

    def session(self, index: int) -> Session:
        group = index % self._num_groups
        prompt = self._writer.write(
            (self._prefix_tokens, np.random.default_rng([self._seed, _PREFIX, group])),
            (self._question_tokens, np.random.default_rng([self._seed, _QUESTION, index])),
        )
        return Session((Completion(prompt),), group=group)
