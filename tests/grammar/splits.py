"""The ways in which an output may come."""

import itertools
import random
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence

from dayzero.grammar.window import Marker, Piece

NUM_RANDOM = 200
_TOKEN = re.compile(r" ?\w+|\s+|[^\w\s]+")  # about as a vocabulary cuts a text
_PER_DELTA = (1, 2, 3, 5, 20)
_MAX_CUT_EVERYWHERE = 120  # characters


def splits_of(output: str, *, num_random: int = NUM_RANDOM) -> Iterator[list[str]]:
    """By character, by one token and by several, in two at every place if it is short, and at random."""
    yield list(output)
    tokens = _TOKEN.findall(output)
    for count in _PER_DELTA:
        yield ["".join(tokens[at : at + count]) for at in range(0, len(tokens), count)]
    if len(output) <= _MAX_CUT_EVERYWHERE:
        yield from ([output[:cut], output[cut:]] for cut in range(1, len(output)))
    chance = random.Random(zlib.crc32(output.encode()))
    for _ in range(num_random):
        cuts = {0, len(output), *(chance.randrange(len(output) + 1) for _ in range(chance.randrange(1, 12)))}
        yield [output[a:b] for a, b in itertools.pairwise(sorted(cuts))]


def groups_of(pieces: Sequence[Piece], *, num_random: int = NUM_RANDOM) -> Iterator[list[Sequence[Piece]]]:
    """The pieces, of which several come together, at random."""
    chance = random.Random(zlib.crc32("".join(pieces).encode()))
    for _ in range(num_random):
        cuts = {0, len(pieces), *(chance.randrange(len(pieces) + 1) for _ in range(chance.randrange(1, 12)))}
        yield [pieces[a:b] for a, b in itertools.pairwise(sorted(cuts))]


def with_marker_tokens(output: str, markers: Iterable[str]) -> list[Piece]:
    """By character, but for markers, which are tokens of their own."""
    pieces: list[Piece] = []
    while output:
        at, marker = min(
            ((at, marker) for marker in markers if (at := output.find(marker)) >= 0),
            key=lambda found: (found[0], -len(found[1])),
            default=(len(output), ""),
        )
        pieces += [*output[:at], *([Marker(marker)] if marker else [])]
        output = output[at + len(marker) :]
    return pieces
