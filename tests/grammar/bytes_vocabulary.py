"""A vocabulary of the 256 bytes and some markers, for grammars to be tried on."""

from collections.abc import Sequence
from itertools import groupby
from random import Random

import llguidance
import llguidance.numpy
import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from dayzero.grammar.window import Marker, Piece

END = "<|end_of_output|>"


class BytesVocabulary:
    """token_ids of the markers, as the grammar of a call wants them.

    special   False: the markers are tokens, but no control tokens, as some vocabularies have them
    """

    def __init__(self, markers: Sequence[str] = (), *, special: bool = True) -> None:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({character: index for index, character in enumerate(alphabet)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_tokens([AddedToken(END, special=True)])
        tokenizer.add_tokens([AddedToken(marker, special=special) for marker in markers])
        self._tokenizer = tokenizer
        self.token_ids = {marker: tokenizer.token_to_id(marker) for marker in markers}
        self.json = tokenizer.to_str()
        self.size = tokenizer.get_vocab_size()
        self.end = tokenizer.token_to_id(END)
        self._guided = llguidance.LLTokenizer(self.json, n_vocab=self.size, eos_token=self.end)

    def encode(self, output: str) -> list[int]:
        """Its tokens, those of markers among them."""
        ids: list[int] = self._tokenizer.encode(output, add_special_tokens=False).ids
        return ids

    def pieces(self, tokens: Sequence[int]) -> list[Piece]:
        """The output that these tokens are, as parsers take it."""
        marker_of = {token: marker for marker, token in self.token_ids.items()}
        found: list[Piece] = []
        for is_marker, group in groupby(tokens, key=marker_of.__contains__):
            run = list(group)
            found += [Marker(marker_of[token]) for token in run] if is_marker else [self._tokenizer.decode(run)]
        return found

    def accepts(self, source: str, output: str) -> bool:
        """Whether the output is one whole that the grammar allows."""
        matcher = self._matcher(source)
        ids = self.encode(output)
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()

    def num_accepted(self, source: str, output: str) -> int:
        """How many characters from the beginning the grammar allows."""
        ids = self.encode(output)
        count = self._matcher(source).try_consume_tokens(ids)
        return len(self._tokenizer.decode(ids[:count], skip_special_tokens=False))

    def drawn(self, source: str, random: Random, words: Sequence[str], *, limit: int = 400) -> list[int] | None:
        """Tokens of an output that the grammar accepts, at random of these words; None if it did not end in time."""
        matcher = self._matcher(source)
        tokens: list[int] = []
        while len(tokens) < limit and not matcher.is_stopped():
            if matcher.is_accepting() and random.random() < 0.5:
                break
            chosen = self.encode(random.choice(words))
            count = matcher.try_consume_tokens(chosen)
            if not count:
                chosen = [random.choice(self._allowed(matcher))]
                count = matcher.try_consume_tokens(chosen)
            tokens += chosen[:count]
        return [token for token in tokens if token != self.end] if matcher.is_accepting() else None

    def _allowed(self, matcher: llguidance.LLMatcher) -> list[int]:
        count = self.size
        rows = llguidance.numpy.allocate_token_bitmask(1, count)
        llguidance.numpy.fill_next_token_bitmask(matcher, rows, 0)
        found: list[int] = np.flatnonzero(
            np.unpackbits(rows[0].view(np.uint8), bitorder="little", count=count)
        ).tolist()
        return found

    def _matcher(self, source: str) -> llguidance.LLMatcher:
        grammar = llguidance.LLMatcher.grammar_from_lark(source)
        is_wrong, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar, self._guided)
        assert not is_wrong, (messages, source)
        return llguidance.LLMatcher(self._guided, grammar, log_level=0)
