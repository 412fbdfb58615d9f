"""A grammar at work on one output: which tokens may come next, by llguidance.

A matcher never raises for what a grammar or an output does: it goes into an error state and stays there, which it says.
Its messages hold text of the output, so they are not passed on.
"""

import re
from collections.abc import Sequence
from typing import Any

import llguidance as lg
import numpy as np
from numpy.typing import NDArray

from dayzero.grammar.recent import Recent

_PLACE = re.compile(r"(at )?\d+\(\d+\): ")
_QUOTE = re.compile(r"\s+\d* *[|^]|\s*$")
_MAX_REASON_CHARS = 300
_COMPILED_BYTES = 32 * 2**20
# What a compiled grammar takes, roughly, once it was followed: one by itself, and for each character of it. Of the
# public schemas (docs/quality.md) small ones take 115 KiB, those of 26,000 characters 1 MiB.
_BYTES_EACH, _BYTES_PER_CHAR = 120 * 2**10, 50
_NO_START = "the grammar allows no output, or needs more work than a request may take"

Mask = NDArray[np.int32]


def limits() -> Any:
    """What a grammar may cost: a fraction of llguidance's own defaults, which bound no time (CVE-2026-55574).

    A step's fuel is the default: 20 kB of real schema burn over 100,000, and what burns it all takes 6 ms.
    """
    return lg.LLParserLimits(
        initial_lexer_fuel=200_000,
        step_lexer_fuel=200_000,
        step_max_items=20_000,
        max_items_in_row=1000,
        max_lexer_states=50_000,
        max_grammar_size=100_000,
        verbose_errors=False,
    )


class TokenTable:
    """The tokens of a vocabulary, as grammars see them: shared by all matchers of an engine.

    Keeps what it compiled lately: a copy takes a hundredth of a compilation. Threads may share it.

    tokenizer   as the tokenizers library writes it
    vocab_size  width of the logits; ids beyond the tokenizer's own are never allowed
    """

    def __init__(self, tokenizer: str, vocab_size: int, eos_token_ids: Sequence[int]) -> None:
        self.vocab_size = vocab_size
        self.tokens = lg.LLTokenizer(tokenizer, n_vocab=vocab_size, eos_token=list(eos_token_ids))
        self._compiled: Recent[Any] = Recent(_COMPILED_BYTES)

    def matcher(self, grammar: str) -> "Matcher":
        compiled = self._compiled.get(grammar)  # is never advanced, so that copies can be made of it at any time
        if compiled is None:
            compiled = self._compile(grammar)
            self._compiled.put(grammar, compiled, _BYTES_EACH + _BYTES_PER_CHAR * len(grammar))
        return Matcher(compiled.deep_copy(), self.vocab_size)

    def fault(self, grammar: str) -> str | None:
        """Why a grammar cannot be used, in one line for whoever wrote it; None if it can. Tries a first token.

        Nothing of it is kept: whoever asks keeps the answer.
        """
        is_error, messages = lg.LLMatcher.validate_grammar_with_warnings(grammar, self.tokens, limits=limits())
        if is_error:
            return _one_line(messages[0])
        matcher = Matcher(self._compile(grammar), self.vocab_size)
        matcher.mask()
        return _NO_START if matcher.is_broken else None

    def _compile(self, grammar: str) -> Any:
        return lg.LLMatcher(self.tokens, grammar, log_level=0, limits=limits())


class Matcher:
    """One output's. It begins before the first token."""

    def __init__(self, matcher: Any, vocab_size: int) -> None:
        self._matcher = matcher
        self._num_words = -(-vocab_size // 32)

    @property
    def is_broken(self) -> bool:
        """The grammar does not compile, cost too much, or was not followed."""
        return bool(self._matcher.is_error())

    @property
    def is_complete(self) -> bool:
        """Nothing but the end may follow."""
        return bool(self._matcher.is_stopped())

    @property
    def is_accepting(self) -> bool:
        """The end may follow."""
        return bool(self._matcher.is_accepting())

    def mask(self) -> Mask:
        """Which tokens may come next, [ceil(V / 32)]: bit i % 32 of word i // 32 for token i."""
        mask = np.empty(self._num_words, dtype=np.int32)
        self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)  # as lnp does, without a copy
        return mask

    def take(self, tokens: Sequence[int]) -> bool:
        """Go on behind these tokens; False, and broken from then on, if the grammar forbids one of them."""
        return all(map(self._matcher.consume_token, tokens))

    def rollback(self, count: int) -> None:
        """Forget the last tokens."""
        self._matcher.rollback(count)


def _one_line(message: str) -> str:
    """What is wrong, without the place, which is one in our own rewriting, and without quotes of the grammar."""
    lines = [_PLACE.sub("", line).strip() for line in message.splitlines() if not _QUOTE.match(line)]
    reasons = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    found = ": ".join((lines[0].rstrip(":"), *reasons)) if lines else "it does not compile"
    return found[:_MAX_REASON_CHARS]
