"""A JSON Schema's grammar as a request's is, over single bytes: what it accepts, and text drawn from it.

Bytes, since a grammar allows a token exactly if it allows its bytes one after the other: no vocabulary takes part.
"""

import random
from collections.abc import Sequence
from functools import cache

import llguidance
import llguidance.numpy
import numpy as np

from bench.suites.cases import Json
from dayzero.errors import RequestError
from dayzero.grammar.answer_constraint import plain_constraint
from dayzero.grammar.matcher import limits
from dayzero.grammar.wanted import JsonWanted, check_schema

_EOS = 261
_CLOSING = frozenset(b'"}]')
_CLOSING_WEIGHT = 24.0  # against 1 of any other byte: strings and arrays that end, at a length that exercises them
_BLANKS = frozenset(b" \t\r\n")
_BLANK_WEIGHT = 0.05


class Refused(Exception):
    """A schema that is not compiled; the message names the keyword."""


class ByteGrammar:
    """Compiled from a schema. Raises Refused."""

    def __init__(self, schema: Json) -> None:
        try:
            check_schema(schema, "schema")
        except RequestError as error:
            raise Refused(error.message) from None
        source = plain_constraint(JsonWanted(schema)).grammar
        is_error, messages = llguidance.LLMatcher.validate_grammar_with_warnings(source, _bytes(), limits=limits())
        if is_error:
            raise Refused(messages[0])
        self._start = llguidance.LLMatcher(_bytes(), source, log_level=0, limits=limits())  # never advanced

    def accepts(self, text: str) -> bool:
        """Whether the whole text is complete, and every byte of it allowed after those before."""
        matcher = self._start.deep_copy()
        data = list(text.encode())
        return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())

    def draw(self, rng: random.Random, *, max_bytes: int) -> str | None:
        """A text of allowed bytes, None if it has not ended after `max_bytes`."""
        matcher = self._start.deep_copy()
        mask = llguidance.numpy.allocate_token_bitmask(1, _bytes().vocab_size)
        drawn = bytearray()
        while len(drawn) < max_bytes:
            llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
            allowed = _ids(mask[0])
            if _EOS in allowed and (len(allowed) == 1 or rng.random() < 0.5):
                return drawn.decode()
            byte = rng.choices(allowed, [_weight(token) for token in allowed])[0]
            matcher.consume_token(byte)
            drawn.append(byte)
        return None


@cache
def _bytes() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer("byte")


def _ids(row: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Sequence[int]:
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits) if token < 256 or token == _EOS]


def _weight(token: int) -> float:
    if token in _CLOSING:
        return _CLOSING_WEIGHT
    if token in _BLANKS:
        return _BLANK_WEIGHT
    return 0.0 if token == _EOS else 1.0
