"""Counter-based random numbers: the noise of any token of any request, in any order, on any process.

Philox4x64-10, bit for bit numpy's. A block of four 64-bit values belongs to four neighbouring token ids:

    key      (seed, 0)
    counter  (1 + token // 4, absolute position, choice << 32 | attempt, stream)
    value    number token % 4 of the block

The 1 is there because numpy's generator counts before it draws, so that a generator that starts at word 0 yields the
noise of the whole vocabulary in order. `raw_row` is that generator (4 ns a token, the whole row); `raw_at` computes
scattered tokens of many rows together (150 ns a token). Both give the same bits.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UInts = NDArray[np.uint64]
Floats = NDArray[np.float64]

TOKEN_STREAM = 0  # the noise that picks the target model's tokens; other uses of a seed take other streams

_ROUNDS = 10
_MULTIPLIERS = np.array([[0xD2E7470EE14C6C93], [0xCA5A826395121157]], dtype=np.uint64)
_WEYL = np.array([[0x9E3779B97F4A7C15], [0xBB67AE8584CAA73B]], dtype=np.uint64)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)
_MULTIPLIERS_LOW = _MULTIPLIERS & _LOW_HALF
_MULTIPLIERS_HIGH = _MULTIPLIERS >> _HALF_BITS

_CHUNK = 2048  # candidates whose temporaries stay in the cache: 10,000 in one piece take twice as long

_UNIFORM_BITS = 52  # with the half step that keeps 0 and 1 out, exactly what a float64 holds
_DROPPED_BITS = np.uint64(64 - _UNIFORM_BITS)
_UNIFORM_STEP = 2.0**-_UNIFORM_BITS


@dataclass(frozen=True, slots=True)
class Draw:
    """All that the noise of one position of one request depends on. Unsigned: 64, 32, 32 and 64 bits."""

    seed: int
    choice: int
    attempt: int
    position: int


def raw_row(draw: Draw, num_tokens: int) -> UInts:
    """[num_tokens] random bits of token ids 0, 1, 2, ..."""
    key = np.array([draw.seed, 0], dtype=np.uint64)
    counter = np.array([0, draw.position, draw.choice << 32 | draw.attempt, TOKEN_STREAM], dtype=np.uint64)
    return np.random.Philox(key=key, counter=counter).random_raw(num_tokens)


def raw_at(draws: Sequence[Draw], owners: NDArray[np.intp], tokens: NDArray[np.intp]) -> UInts:
    """[C] random bits of candidate c: token id tokens[c] of draws[owners[c]]."""
    words = np.array([(d.seed, d.position, d.choice << 32 | d.attempt) for d in draws], dtype=np.uint64)
    raw = np.empty(len(tokens), dtype=np.uint64)
    for start in range(0, len(tokens), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        seeds, positions, choices = words[owners[chunk]].T
        blocks = 1 + (tokens[chunk] // 4).astype(np.uint64)
        counter = np.stack([blocks, positions, choices, np.full_like(blocks, TOKEN_STREAM)])
        key = np.stack([seeds, np.zeros_like(seeds)])
        raw[chunk] = philox(counter, key)[tokens[chunk] % 4, np.arange(len(blocks))]
    return raw


def philox(counter: UInts, key: UInts) -> UInts:
    """[4, C] random bits of C counters [4, C] under C keys [2, C], word 0 first."""
    # Each round multiplies words 0 and 2 and mixes words 1 and 3 and the key in, so the two pairs are kept apart.
    multiplied, mixed = counter[0::2], counter[1::2]
    for _ in range(_ROUNDS):
        high, low = _multiply(multiplied)
        multiplied, mixed = high[::-1] ^ mixed ^ key, low[::-1]
        key = key + _WEYL
    return np.stack([multiplied[0], mixed[0], multiplied[1], mixed[1]])


def _multiply(words: UInts) -> tuple[UInts, UInts]:
    """High and low 64 bits of `words` times the round's multipliers, through 32-bit halves."""
    low, high = words & _LOW_HALF, words >> _HALF_BITS
    # No sum overflows: (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1.
    middle = low * _MULTIPLIERS_HIGH + (low * _MULTIPLIERS_LOW >> _HALF_BITS)
    carry = high * _MULTIPLIERS_LOW + (middle & _LOW_HALF)
    top = high * _MULTIPLIERS_HIGH + (middle >> _HALF_BITS) + (carry >> _HALF_BITS)
    return top, words * _MULTIPLIERS


def uniform(raw: UInts) -> Floats:
    """Strictly between 0 and 1, exact multiples of 2^-53."""
    return ((raw >> _DROPPED_BITS).astype(np.float64) + 0.5) * _UNIFORM_STEP


def gumbel(raw: UInts) -> Floats:
    """Standard Gumbel noise, between -3.7 and 36.8, rising with `raw`.

    The token with the largest (logit + noise) is a draw from the softmax of the logits.
    """
    noise: Floats = -np.log(-np.log(uniform(raw)))
    return noise


def least_raw(noise: float) -> int:
    """A 64-bit number: random bits below it give less Gumbel noise than `noise`."""
    # P(gumbel >= noise), taken a little larger so that no rounding, here or in `gumbel`, can lose a value.
    above = -math.expm1(-math.exp(-noise)) * (1 + 1e-9) if noise > -6 else 1.0
    steps = math.ceil(above / _UNIFORM_STEP) + 2
    return max(0, (1 << _UNIFORM_BITS) - steps) << (64 - _UNIFORM_BITS)
