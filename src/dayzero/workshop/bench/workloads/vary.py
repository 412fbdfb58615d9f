"""A salt at the start of each prompt, so that a repeat of it shares no prefix with what a server has seen.

Sessions of one group get one salt: what a workload means to share stays shared within a run.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from dayzero.workshop.bench.workloads.session import Chat, Completion, Message, Prompt, Session, Turn, Workload

# A salted prompt of token ids begins with 4 of its own first 16 ids, redrawn: 65,536 beginnings, all of the server's
# vocabulary. Only the first 16 are looked at because the prompts of one group need share no more than a KV block.
_SALTED_TOKENS = 4
_SALT_POOL_TOKENS = 16


class Varied:
    """A workload whose prompts start with a salt of (seed, label, group). Text grows by some ten characters.

    A prompt of token ids keeps its length: its first few ids are redrawn from its own.
    """

    def __init__(self, inner: Workload, *, seed: int, label: str) -> None:
        self._inner = inner
        self._seed = seed
        self._label = label

    def session(self, index: int) -> Session:
        session = self._inner.session(index)
        digest = hashlib.blake2b(f"{self._seed}/{self._label}/{session.group}".encode(), digest_size=8)
        first, *rest = session.turns
        return Session((_salted(first, digest.hexdigest()), *rest), session.group)


def _salted(turn: Turn, salt: str) -> Turn:
    if isinstance(turn, Completion):
        return Completion(_salted_prompt(turn.prompt, salt), turn.max_tokens)
    message, *rest = turn.messages
    return Chat((_salted_message(message, salt), *rest), turn.reply, turn.max_tokens)


def _salted_prompt(prompt: Prompt, salt: str) -> Prompt:
    if isinstance(prompt, str):
        return f"# {salt[:8]}\n{prompt}"
    num_salted = min(_SALTED_TOKENS, len(prompt))
    pool_size = min(_SALT_POOL_TOKENS, len(prompt))
    chosen = np.random.default_rng(int(salt, 16)).integers(pool_size, size=num_salted)
    return tuple(prompt[i] for i in chosen) + prompt[num_salted:]


def _salted_message(message: Message, salt: str) -> Message:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": f"# {salt[:8]}\n{content}"}
    if isinstance(content, Sequence) and all(isinstance(part, Mapping) for part in content):
        return {**message, "content": [{"type": "text", "text": f"# {salt[:8]}\n"}, *content]}
    return message
