"""Turns the notation of gemma 4's calls into JSON while it comes.

    {city:<|"|>Köln<|"|>,days:2,places:[<|"|>a<|"|>,<|"|>b<|"|>],more:{deep:true}}

Between two string marks everything is the string, without escapes. Keys are bare or between string marks; other values
are what JSON writes, and a word that is none of them is a string.

Source: the chat template (google/gemma-4; a copy in ggml-org/llama.cpp, models/templates/gemma4.jinja).
"""

import json
import re
from enum import Enum, auto

STRING_MARK = '<|"|>'
MAX_DEPTH = 64
MAX_WORD = 4096  # characters of a key, or of a value that is no string: longer ones are no notation

_SPACE = re.compile(r"\s*")
_WORD_ENDS = re.compile(r"[,}\]]")
_JSON_WORD = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class _Next(Enum):
    """What may come next."""

    KEY = auto()
    VALUE = auto()
    STRING = auto()
    COMMA = auto()


class GemmaObject:
    """Reads one object.

    is_complete   its last brace has come
    is_broken     it is not of this notation; nothing more is read
    """

    def __init__(self) -> None:
        self._closers: list[str] = []
        self._needs_comma = False
        self._next = _Next.VALUE
        self.is_complete = False
        self.is_broken = False

    def feed(self, text: str) -> tuple[str, int]:
        """The JSON that `text` gives, and how much of it was read: the rest is to come again, with more behind it."""
        pieces: list[str] = []
        at = 0
        while not (self.is_complete or self.is_broken):
            if self._next is not _Next.STRING:
                at = _space_end(text, at)
            if at == len(text):
                break
            read = self._step(text, at)
            if read is None:
                break
            pieces.append(read[0])
            at = read[1]
        return "".join(pieces), at

    def _step(self, text: str, at: int) -> tuple[str, int] | None:
        """The JSON of what stands at `at`, and where that ends; `None` when it is not all there yet."""
        match self._next:
            case _Next.STRING:
                return self._string(text, at)
            case _Next.COMMA:
                return self._comma(text, at)
            case _Next.KEY:
                return self._close(text, at) if text[at] == "}" else self._key(text, at)
            case _Next.VALUE:
                is_end = text[at] == "]" and self._closers[-1:] == ["]"]
                return self._close(text, at) if is_end else self._value(text, at)

    def _string(self, text: str, at: int) -> tuple[str, int] | None:
        end = text.find(STRING_MARK, at)
        if end >= 0:
            self._next = _Next.COMMA
            return _escaped(text[at:end]) + '"', end + len(STRING_MARK)
        end = len(text) - _mark_begun(text)
        return (_escaped(text[at:end]), end) if end > at else None

    def _comma(self, text: str, at: int) -> tuple[str, int]:
        if text[at] != ",":
            return self._close(text, at)
        self._next = _Next.KEY if self._closers[-1] == "}" else _Next.VALUE
        self._needs_comma = True
        return "", at + 1

    def _key(self, text: str, at: int) -> tuple[str, int] | None:
        is_quoted = text.startswith(STRING_MARK, at)
        if not is_quoted and STRING_MARK.startswith(text[at : at + len(STRING_MARK)]):
            return None
        begin = at + len(STRING_MARK) if is_quoted else at
        end = text.find(STRING_MARK if is_quoted else ":", begin, at + MAX_WORD)
        after = _space_end(text, end + len(STRING_MARK)) if is_quoted else end
        if end < 0 or after == len(text):
            return self._wait(text, at)
        if text[after] != ":":
            return self._break(at)
        self._next = _Next.VALUE
        key = text[begin:end] if is_quoted else text[begin:end].rstrip()
        return f'{self._separator()}"{_escaped(key)}": ', after + 1

    def _value(self, text: str, at: int) -> tuple[str, int] | None:
        separator = self._separator() if self._closers[-1:] == ["]"] else ""
        if text[at] in "{[":
            return self._enter(text[at], separator, at)
        if not self._closers:
            return self._break(at)
        if text.startswith(STRING_MARK, at):
            self._next = _Next.STRING
            return separator + '"', at + len(STRING_MARK)
        end = _WORD_ENDS.search(text, at, at + MAX_WORD)
        if end is None or STRING_MARK.startswith(text[at : at + len(STRING_MARK)]):
            self._needs_comma = self._needs_comma or bool(separator)
            return self._wait(text, at)
        self._next = _Next.COMMA
        word = text[at : end.start()].rstrip()
        return separator + (word if _JSON_WORD.fullmatch(word) else f'"{_escaped(word)}"'), end.start()

    def _enter(self, opener: str, separator: str, at: int) -> tuple[str, int]:
        if len(self._closers) == MAX_DEPTH or (not self._closers and opener != "{"):
            return self._break(at)
        self._closers.append("}" if opener == "{" else "]")
        self._next = _Next.KEY if opener == "{" else _Next.VALUE
        self._needs_comma = False
        return separator + opener, at + 1

    def _close(self, text: str, at: int) -> tuple[str, int]:
        if text[at] != self._closers[-1]:
            return self._break(at)
        self._closers.pop()
        self._next = _Next.COMMA
        self._needs_comma = False
        self.is_complete = not self._closers
        return text[at], at + 1

    def _separator(self) -> str:
        separator, self._needs_comma = ", " if self._needs_comma else "", False
        return separator

    def _wait(self, text: str, at: int) -> tuple[str, int] | None:
        return self._break(at) if len(text) - at >= MAX_WORD else None

    def _break(self, at: int) -> tuple[str, int]:
        self.is_broken = True
        return "", at


def _space_end(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _mark_begun(text: str) -> int:
    """How many characters at the end of `text` a string mark may begin with."""
    lengths = range(min(len(STRING_MARK) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(STRING_MARK[:length])), 0)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
