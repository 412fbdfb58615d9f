"""Text to token ids, and the bytes of each id.

Immutable and safe to share between threads: what is filled in later are caches of pure functions. Knows no models:
ids between `vocab_size` and the width of a model's output, which padded vocabularies have, stand for no bytes.
"""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Self

from tokenizers import Tokenizer as RawTokenizer

from dayzero.text.source import TokenizerSource
from dayzero.text.vocabulary import Spelling, Vocabulary, build, piece_bytes

# The library reads it at its first use. It is given one text at a time and needs no threads of its own, of which it
# would warn in every child that is forked later.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class _ByteTable(dict[int, bytes]):
    """Bytes by id, computed at the first look-up: no start-up cost, one dict look-up on the hot path."""

    def __init__(self, vocabulary: Vocabulary, hidden: frozenset[int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._hidden = hidden

    def __missing__(self, token: int) -> bytes:
        value = self._compute(token)
        self[token] = value
        return value

    def _compute(self, token: int) -> bytes:
        vocabulary = self._vocabulary
        if token in self._hidden or token in vocabulary.unused or token < 0:
            return b""
        piece = vocabulary.marked.id_to_token(token)
        if piece is None:
            return b""
        if token in vocabulary.literal and (vocabulary.spelling is Spelling.BYTES or token in vocabulary.control):
            return piece.encode()
        return piece_bytes(piece, vocabulary.spelling)


class Tokenizer:
    """A checkpoint's tokenizer.

    `encode` never adds a token of its own. Decoding is the concatenation of the tokens' bytes, whatever comes before:
    a SentencePiece token that starts a word keeps its space, since what is decoded usually continues a prompt.
    """

    def __init__(
        self, vocabulary: Vocabulary, *, add_bos: bool, bos_token_id: int | None, after_text: tuple[int, ...] = ()
    ) -> None:
        self._vocabulary = vocabulary
        self._first = bos_token_id if add_bos else None
        self._last = after_text
        self.vocab_size: int = vocabulary.marked.get_vocab_size(with_added_tokens=True)
        self.markup: Mapping[str, int] = vocabulary.markup
        self._markup_ids = frozenset(vocabulary.markup.values())
        self._raw = _ByteTable(vocabulary, frozenset())
        self._visible = _ByteTable(vocabulary, vocabulary.control)

    @classmethod
    def from_source(cls, source: TokenizerSource) -> Self:
        """Raises UnsupportedModel for a pre-tokenizer or model that is not known, CheckpointError for a broken one."""
        return cls(
            build(source), add_bos=source.add_bos, bos_token_id=source.bos_token_id, after_text=source.after_text
        )

    def to_json(self) -> str:
        """All of it, as the tokenizers library writes it."""
        return str(self._vocabulary.marked.to_str())

    def encode(self, text: str, *, special: bool) -> list[int]:
        """special: the text of an added token becomes that token; otherwise no text can become `markup`.

        Lone surrogates, which no tokenizer can encode, become U+FFFD.
        """
        tokenizer = self._vocabulary.marked if special else self._vocabulary.plain
        try:
            ids = _encoded(tokenizer, text)
        except TypeError:  # what the library raises for a lone surrogate
            ids = _encoded(tokenizer, _without_lone_surrogates(text))
        if not special and not self._markup_ids.isdisjoint(ids):
            return self._spelt_out(ids)
        return ids

    def encode_prompt(self, text: str, *, special: bool = True) -> list[int]:
        """`encode`, after exactly one beginning-of-sequence token if the model starts with one."""
        ids = self.encode(text, special=special)
        return ids if self._first is None or ids[:1] == [self._first] else [self._first, *ids]

    def encode_text(self, text: str, *, special: bool = False) -> list[int]:
        """A text that is whole, to be embedded: `encode_prompt`, and what the tokenizer puts behind a text."""
        return [*self.encode_prompt(text, special=special), *self._last]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of the ids; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.bytes_by_id(skip_special=skip_special).__getitem__, ids)).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The raw bytes of any id: an added token's text, nothing for an id that stands for nothing."""
        return self._raw[token]

    def bytes_by_id(self, *, skip_special: bool) -> Mapping[int, bytes]:
        """`token_bytes` as a table for hot paths; `skip_special` leaves control tokens empty."""
        return self._visible if skip_special else self._raw

    def is_markup(self, token: int) -> bool:
        """Whether the id is a token that content must never become: see `text.vocabulary`."""
        return token in self._markup_ids

    def split_markup(self, text: str) -> tuple[list[int], list[str]]:
        """The n markup tokens that a text spells, in order, and the n + 1 pieces around them.

        Where several tokens start, the longest counts, as in `encode`.
        """
        if not self.markup:
            return [], [text]
        parts = self._markup_pattern.split(text)
        return [self.markup[part] for part in parts[1::2]], parts[::2]

    @cached_property
    def _markup_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.markup, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def _spelt_out(self, ids: list[int]) -> list[int]:
        """Replace markup that plain merges led to by the tokens of its single characters."""
        spelt: list[int] = []
        for token in ids:
            if token not in self._markup_ids:
                spelt.append(token)
                continue
            for character in self._raw[token].decode():
                spelt.extend(_encoded(self._vocabulary.plain, character))
        return spelt


def _encoded(tokenizer: RawTokenizer, text: str) -> list[int]:
    """As a batch of one, the only form in which the library lets other threads of Python run meanwhile."""
    ids: list[int] = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
    return ids


def _without_lone_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
