"""Output that was not read yet, and the steps by which readers walk through it.

A reader is a generator over a `Window`: it yields what it has read, and None where it needs more of the output. So each
format reads like the text that it describes, however the output was cut.
"""

from collections import deque
from collections.abc import Container, Generator, Iterable
from dataclasses import dataclass
from typing import Protocol


class Marker(str):
    """Characters that came as one token of their own: a model that meant them as text spells them out."""

    __slots__ = ()


Piece = str | Marker
SPACES = " \t\r\n"


class Malformed(Exception):
    """The output is not what a reader reads."""


class Truncated(Exception):
    """The output ended before the reader did."""


@dataclass(frozen=True, slots=True)
class Name:
    """A call's function, complete."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """A stretch of a call's arguments as JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """A call is complete."""


Said = Name | Arguments | End | None
Reader = Generator[Said, None, None]


class Markers:
    """Strings to look for: those of `tokens` only where they came as one token, the others in the text."""

    def __init__(self, strings: Iterable[str], tokens: frozenset[str]) -> None:
        self._strings = tuple(dict.fromkeys(string for string in strings if string))
        self.as_tokens = frozenset(string for string in self._strings if string in tokens)
        self.as_text = tuple(
            sorted((string for string in self._strings if string not in tokens), key=len, reverse=True)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Where to go on: text before `at` is free of markers. `marker` None: none yet; the rest may be one."""

    at: int
    marker: str | None


class Window:
    """Text that arrives at the end and is taken from the front; where it holds a marker token, it knows.

    is_final   nothing more will arrive
    tokens     markers that are one token in this vocabulary
    """

    def __init__(self, tokens: frozenset[str] = frozenset()) -> None:
        self.text = ""
        self.is_final = False
        self.tokens = tokens
        self.taken: list[str] | None = None  # what is taken, while somebody wants it back
        self._spans: deque[tuple[int, int]] = deque()  # of marker tokens: start and end since the beginning
        self._start = 0  # of `text`, since the beginning

    def push(self, pieces: Iterable[Piece]) -> None:
        texts = [self.text]
        end = self._start + len(self.text)
        for piece in pieces:
            if isinstance(piece, Marker):
                self._spans.append((end, end + len(piece)))
            texts.append(piece)
            end += len(piece)
        self.text = "".join(texts)

    def take(self, count: int) -> str:
        """The next characters."""
        taken, self.text = self.text[:count], self.text[count:]
        self._start += len(taken)
        while self._spans and self._spans[0][0] < self._start:
            self._spans.popleft()
        if self.taken is not None:
            self.taken.append(taken)
        return taken

    def find(self, markers: Markers, start: int = 0) -> Found:
        """The first marker from `start` on, the longest of those that begin there."""
        span = next(
            (
                (at, self.text[at : end - self._start])
                for begin, end in self._spans
                if (at := begin - self._start) >= start and self.text[at : end - self._start] in markers.as_tokens
            ),
            None,
        )
        best = None if span is None else Found(*span)
        for marker in markers.as_text:
            at = self._find_text(marker, start)
            if at >= 0 and (best is None or at < best.at):
                best = Found(at, marker)
        held = self._under_way(markers, start)
        if best is not None and (held is None or best.at <= held):
            return best
        return Found(len(self.text) if held is None else held, None)

    def _find_text(self, marker: str, start: int) -> int:
        """Where a marker is spelled by tokens of text; one inside a marker token does not count."""
        at = self.text.find(marker, start)
        while at >= 0 and any(begin - self._start <= at < end - self._start for begin, end in self._spans):
            at = self.text.find(marker, at + 1)
        return at

    def _under_way(self, markers: Markers, start: int) -> int | None:
        """Where the longest end of the text begins that may become a marker."""
        if self.is_final or not markers.as_text:
            return None
        longest = len(markers.as_text[0])
        for at in range(max(start, len(self.text) - longest + 1), len(self.text)):
            rest = self.text[at:]
            if any(len(marker) > len(rest) and marker.startswith(rest) for marker in markers.as_text):
                return at
        return None


def more(window: Window) -> Reader:
    """Wait for more of the output. Raises Truncated if there is none."""
    if window.is_final:
        raise Truncated
    yield None


def spaces(window: Window) -> Reader:
    """Skip white space, and know what comes after it."""
    while True:
        window.take(len(window.text) - len(window.text.lstrip(SPACES)))
        if window.text:
            return
        yield from more(window)


def literal(window: Window, *choices: str) -> Generator[Said, None, str]:
    """Take one of the choices, whichever is there. Malformed if none is."""
    found = yield from ahead(window, *choices)
    return window.take(len(found))


def ahead(window: Window, *choices: str) -> Generator[Said, None, str]:
    """Which of the choices is next, none of them another's beginning. Malformed if none is."""
    while True:
        for choice in choices:
            if window.text.startswith(choice):
                return choice
        if window.text and not any(choice.startswith(window.text) for choice in choices):
            raise Malformed
        yield from more(window)


def passed(window: Window, mark: str) -> Reader:
    """Take the mark, and white space before it, if it is what comes next."""
    while True:
        rest = window.text.lstrip(SPACES)
        if rest.startswith(mark):
            window.take(len(window.text) - len(rest) + len(mark))
            return
        if window.is_final or not mark.startswith(rest):
            return
        yield None


def peek(window: Window, count: int) -> Generator[Said, None, str]:
    """The next characters, fewer only at the end of the output."""
    while len(window.text) < count and not window.is_final:
        yield None
    return window.text[:count]


def until(
    window: Window, markers: Markers, limit: int, *, keep: Container[str] | None = None
) -> Generator[Said, None, tuple[str, str]]:
    """The text before the next marker, taken, and that, taken unless it is one to keep. Malformed beyond `limit`."""
    while (found := window.find(markers)).marker is None:
        if found.at > limit:
            raise Malformed
        yield from more(window)
    if found.at > limit:
        raise Malformed
    text = window.take(found.at)
    if keep is None or found.marker not in keep:
        window.take(len(found.marker))
    return text, found.marker


class Converter(Protocol):
    """Makes JSON of arguments that are written otherwise. Complete or broken, it reads nothing more."""

    is_complete: bool
    is_broken: bool

    def feed(self, text: str) -> tuple[str, int]:
        """The JSON that `text` gives, and how much of it was read: the rest comes again, with more behind it."""
        ...


def converted(window: Window, converter: Converter) -> Reader:
    """Arguments up to their end, as the converter gives them. Malformed if it breaks."""
    while True:
        said, count = converter.feed(window.text)
        window.take(count)
        if said:
            yield Arguments(said)
        if converter.is_broken:
            raise Malformed
        if converter.is_complete:
            return
        yield from more(window)
