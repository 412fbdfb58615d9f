"""Prompts of a wanted length. Token ids are exact; words are as good as the measured tokens per word."""

from typing import Protocol

import numpy as np

from dayzero.workshop.bench.workloads.session import Prompt

# Short everyday words: most tokenizers give each of them one token after a space.
_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father "
    "power hour game line end member law car city name team minute idea body back parent face others level office "
    "door health person art war history party result change morning reason research girl guy moment air teacher"
)


class PromptWriter(Protocol):
    """Writes random prompts; a part is (number of tokens, its own generator), so that prompts can share a part."""

    @property
    def description(self) -> str: ...

    def write(self, *parts: tuple[int, np.random.Generator]) -> Prompt: ...


class TokenIdWriter:
    """Draws from ids that the server's own tokenizer gave for ordinary text: never a special token."""

    description = "token ids"

    def __init__(self, ids: tuple[int, ...]) -> None:
        assert ids
        self.ids = ids
        self._array = np.array(ids)

    def write(self, *parts: tuple[int, np.random.Generator]) -> Prompt:
        drawn: list[int] = []
        for num_tokens, rng in parts:
            drawn.extend(rng.choice(self._array, size=num_tokens).tolist())
        return tuple(drawn)


class WordWriter:
    """Text of everyday words, for servers that take no token ids. Lengths are right on average."""

    def __init__(self, tokens_per_word: float) -> None:
        assert tokens_per_word > 0, tokens_per_word
        self._tokens_per_word = tokens_per_word
        self._words = everyday_words()

    @property
    def description(self) -> str:
        return f"words ({self._tokens_per_word:.2f} tokens each)"

    def write(self, *parts: tuple[int, np.random.Generator]) -> Prompt:
        return "".join(self._text(num_tokens, rng) for num_tokens, rng in parts).lstrip()

    def _text(self, num_tokens: int, rng: np.random.Generator) -> str:
        num_words = max(1, round(num_tokens / self._tokens_per_word))
        return "".join(f" {self._words[i]}" for i in rng.integers(len(self._words), size=num_words))


def everyday_words() -> list[str]:
    return _WORDS.split()
