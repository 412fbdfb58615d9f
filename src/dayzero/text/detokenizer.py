"""Text from tokens as they come, one stream at a time.

Works on bytes: a token may end inside a character. Only a tail that more bytes could complete is held back, at most
three bytes; bytes that can no longer be text become U+FFFD at once.
"""

from codecs import utf_8_decode
from collections.abc import Sequence

from dayzero.text.tokenizer import Tokenizer


class Detokenizer:
    """Any split of the tokens over `push` gives the same text in total: that of `Tokenizer.decode` of them all."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True) -> None:
        self._bytes_of = tokenizer.bytes_by_id(skip_special=skip_special).__getitem__
        self._tail = b""

    def push(self, tokens: Sequence[int]) -> str:
        """The text that these tokens complete."""
        data = self._tail + b"".join(map(self._bytes_of, tokens))
        text, used = utf_8_decode(data, "replace", False)
        self._tail = data[used:]
        return text

    def finish(self) -> str:
        """What is left: U+FFFD for a character that was never completed, or nothing."""
        text, _ = utf_8_decode(self._tail, "replace", True)
        self._tail = b""
        return text
