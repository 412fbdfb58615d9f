"""Whether an output has begun to repeat itself: one token over and over, or a tail of equal copies.

Pure: told tokens and what each spells, it says how many of them are worth keeping. Knows nothing of requests, and
takes copies for equal only if they are so token for token: a loop that counts up is no loop here. The longest copies
that it finds have `_FAR_TOKENS` / 3 tokens.

What repeats in honest output needs more copies than prose does: filler (blanks, digits, the strokes of tables and
rules, one character drawn out) and table rows `FILLER_COPIES`, lines of fenced code `CODE_COPIES`.

Sources: Knuth, Morris, Pratt 1977 (failure function); the shortest period of a tail with two copies is primitive (Fine
and Wilf 1965), so that a run of dashes is a run, and not copies of a pair.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

FRAGMENT_RUN = 4  # a piece of a word does not follow itself so often
WORD_RUN = 12
FILLER_COPIES = 64
PROSE_COPIES = 3
CODE_COPIES = 8
MIN_TOKENS = 48  # that the copies cover

_PROBE_TOKENS = 32  # copies that cover 48 tokens, three at least, repeat as many one period earlier
_NEAR_TOKENS, _NEAR_EVERY = 512, 8
_FAR_TOKENS, _FAR_EVERY = 6144, 32
_ID_BYTES = array("I").itemsize
_LINE_BYTES = 8  # of a line that tell whether it is a fence
_FILLER = frozenset("|-_=+*#~.:/\\<>?0123456789—…·•,;[](){}\"'").union(map(chr, range(0x2500, 0x25A0)))
_TABLE_RATIO = 0.4


@dataclass(frozen=True, slots=True)
class Collapse:
    """A finding.

    tier    0: one token in a row; 1: a tail of copies
    keep    leading tokens of the output that are no part of the loop; of a run, its first token is kept
    bans    the tokens without which it cannot go on: the one that would come next, and the first of a copy
    """

    tier: int
    keep: int
    bans: tuple[int, ...]


class CollapseDetector:
    """Watches one output. `push` each token in order, up to a finding; after one, `resume`.

    is_bound    a grammar writes along, and what repeats may be its doing: every loop needs `FILLER_COPIES`
    num_clean   leading tokens that no open run makes doubtful: what may be shown. Runs of filler are not doubted
    """

    def __init__(self, *, is_bound: bool = False) -> None:
        self.is_bound = is_bound
        self._ids = array("I")
        self._spelt: list[bytes] = []
        self._dropped = 0  # tokens before the first one that is still held
        self._run = 0
        self._run_limit = 0
        self._line = b""  # the start of the line under way
        self._in_fence = False
        self._at_run: tuple[bytes, bool] = (b"", False)  # the line and the fence after the run's first token
        self._resumed_at = 0
        self.num_clean = 0

    def push(self, token: int, spelt: bytes) -> Collapse | None:
        """What this token, spelling these bytes, makes of the output."""
        ids = self._ids
        if ids and ids[-1] == token:
            if self._run == 1:
                self._begin_run(spelt)
            self._run += 1
        else:
            self._run = 1
        ids.append(token)
        self._spelt.append(spelt)
        if len(self._line) < _LINE_BYTES or b"\n" in spelt:
            self._read_lines(spelt)
        count = self.num_clean = self._dropped + len(ids)
        if self._run > 1:
            if self._run_limit < FILLER_COPIES:
                self.num_clean = count - self._run + 1
            if self._run >= self._run_limit:
                return Collapse(0, count - self._run + 1, (token,))
        if count % _NEAR_EVERY:
            return None
        found = self._copies(_NEAR_TOKENS if count % _FAR_EVERY else _FAR_TOKENS)
        self._forget()
        return found

    def _begin_run(self, spelt: bytes) -> None:
        self._run_limit = FILLER_COPIES if self.is_bound else run_limit(spelt.decode(errors="replace"))
        self._at_run = self._line, self._in_fence

    def resume(self) -> None:
        """Go on from `num_clean` tokens: those after it were dropped, and what was found does not count again."""
        extra = self._dropped + len(self._ids) - self.num_clean
        if extra:  # they are of a run, of which the first stays
            del self._ids[-extra:], self._spelt[-extra:]
            self._line, self._in_fence = self._at_run
        self._run = 1
        self._resumed_at = self.num_clean

    def _copies(self, window: int) -> Collapse | None:
        """The longest tail of enough copies within the last tokens."""
        ids = self._ids[-min(window, self._dropped + len(self._ids) - self._resumed_at) :]
        if not _may_repeat(ids):
            return None
        lengths = periods(ids[::-1])
        periodic = [(n, p) for n, p in enumerate(lengths, 1) if n >= MIN_TOKENS and n >= PROSE_COPIES * p and p > 1]
        if not periodic:
            return None
        length, period = max(periodic)
        if length // period < self._copies_needed(length, period):
            return None
        start = len(self._ids) - length
        bans = dict.fromkeys((self._ids[-period], self._ids[start]))
        return Collapse(1, self._dropped + start, tuple(bans))

    def _copies_needed(self, length: int, period: int) -> int:
        copy = b"".join(self._spelt[-period:]).decode(errors="replace")
        if (
            self.is_bound
            or is_filler(copy)
            or is_table(b"".join(self._spelt[-max(length, _PROBE_TOKENS) :]).decode(errors="replace"))
        ):
            return FILLER_COPIES
        return CODE_COPIES if self._in_fence else PROSE_COPIES

    def _read_lines(self, spelt: bytes) -> None:
        """Keep track of fences; of a line, only how it starts matters."""
        if b"\n" not in spelt:
            self._line = (self._line + spelt)[:_LINE_BYTES]
            return
        first, *others = spelt.split(b"\n")
        for line in (self._line + first, *others[:-1]):
            if line.lstrip(b" ").startswith((b"```", b"~~~")):
                self._in_fence = not self._in_fence
        self._line = others[-1][:_LINE_BYTES]

    def _forget(self) -> None:
        """Hold no more than the widest window needs."""
        if len(self._ids) > 2 * _FAR_TOKENS:
            extra = len(self._ids) - _FAR_TOKENS
            del self._ids[:extra], self._spelt[:extra]
            self._dropped += extra


def run_limit(text: str) -> int:
    """How often a token of this text may stand in a row before that is a collapse."""
    if is_filler(text):
        return FILLER_COPIES
    # Scripts without capitals may have no spaces either: there a word and a piece of one look alike.
    is_fragment = text[0].isalpha() and text[0].lower() != text[0].upper()
    return FRAGMENT_RUN if is_fragment else WORD_RUN


def is_filler(text: str) -> bool:
    """Whether it is all blanks, digits and strokes, or one character drawn out; also text of no characters."""
    return len(set(text)) <= 1 or all(c in _FILLER or c.isspace() for c in text)


def is_table(text: str) -> bool:
    """Whether two of five lines are table rows."""
    lines = [line for line in text.splitlines() if line.strip()]
    return sum(line.lstrip().startswith("|") for line in lines) > _TABLE_RATIO * len(lines)


def periods(ids: Sequence[int]) -> list[int]:
    """The shortest period of each prefix, the one of a single token first."""
    failure = [0]
    matched = 0
    for i in range(1, len(ids)):
        while matched and ids[i] != ids[matched]:
            matched = failure[matched - 1]
        matched += ids[i] == ids[matched]
        failure.append(matched)
    return [n - f for n, f in enumerate(failure, 1)]


def _may_repeat(ids: "array[int]") -> bool:
    """Whether the tail may be copies enough: a search and comparisons in C, which spare almost every output the rest.

    If it is copies of p tokens, the last few stand p tokens before, and so do all of three copies and `MIN_TOKENS`.
    """
    data = ids.tobytes()
    probe = data[-_PROBE_TOKENS * _ID_BYTES :]
    at = data.rfind(probe, 0, len(data) - 1)
    while at >= 0:
        gap = len(data) - len(probe) - at
        length = max(PROSE_COPIES * gap, MIN_TOKENS * _ID_BYTES)
        if length > len(data):
            return False
        if at % _ID_BYTES == 0 and data[-length:-gap] == data[gap - length :]:
            return True
        at = data.rfind(probe, 0, at + len(probe) - 1)
    return False
