"""Tokens and log-probabilities of rows of logits, by native code (native/vocabulary.hpp)."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ASKED = struct.Struct("=dddQQQQiiii")


class NativeVocabulary:
    """What is asked of a row is packed before the logits are there, and answered by one call for all rows.

    NOT_FINITE  the token of a row that has none
    DOUBTFUL    that of a row which rounding could decide: the caller's to answer
    """

    def __init__(self, native: Any, pool: Any, instruction_set: str, *, poisoned: bool = False) -> None:
        self.NOT_FINITE: int = native.NOT_FINITE
        self.DOUBTFUL: int = native.DOUBTFUL
        self._drawn: int = native.DRAWN
        self._vocabulary: Any = native.Vocabulary(pool, instruction_set, poisoned)

    def drawn(
        self,
        temperature: float,
        truncation: tuple[int, float, float],
        noise: tuple[int, int, int],
        allowed: NDArray[np.int32] | None,
        num_top: int | None,
    ) -> bytes:
        """A row to draw from.

        temperature  0: the likeliest token
        truncation   top_k (0: off), top_p (1: off), log of min_p (-inf: off)
        noise        seed, position, and choice with attempt: the words of dayzero.sampling.noise
        allowed      [ceil(V / 32)] a bit for each token that may be drawn; the caller keeps it
        """
        top_k, top_p, log_min_p = truncation
        address = 0 if allowed is None else allowed.ctypes.data
        told = -1 if num_top is None else num_top
        return _ASKED.pack(temperature, top_p, log_min_p, *noise, address, top_k, self._drawn, told, 0)

    def told(self, token: int, num_top: int | None) -> bytes:
        """A row that is asked for a token's log-probability, and for that of so many alternatives.

        NOT_FINITE or DOUBTFUL as its token is its answer.
        """
        return _ASKED.pack(0, 0, 0, 0, 0, 0, 0, 0, token, -1 if num_top is None else num_top, 0)

    def answer(self, logits: int, vocab_size: int, packed: bytes) -> Any:
        """native.Answers of rows [N, V] of float32 at an address."""
        return self._vocabulary.answer(logits, vocab_size, packed)
