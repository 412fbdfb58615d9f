"""Calls as Python writes them: [f(city="Köln", days=2), g()]. Read as data, never evaluated.

Some models write calls as JSON objects instead, now and then: that is read too.

A string's characters go through as they come; any other value is read once it is complete.
"""

import ast
import json
import re
import warnings
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from dayzero.grammar.shapes.enveloped import BareEnvelopes
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import (
    Arguments,
    End,
    Malformed,
    Name,
    Reader,
    Said,
    Window,
    literal,
    more,
    peek,
    spaces,
)

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")  # tools may be named so that Python could not
_MAX_NAME = 256
_MAX_VALUE = 65536  # characters of a value that is no string
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "0": "\0", "\n": ""}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)  # halves of a character beyond 16 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Pythonic:
    """As the whole of an answer, or after what begins it.

    end   what may follow the list
    """

    end: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.end,) if self.end else ()

    def read(self, window: Window, trigger: str, tools: Mapping[str, Tool]) -> Reader:
        yield from spaces(window)
        if window.text[0] == "{":
            yield from BareEnvelopes().read(window, trigger, tools)
        else:
            yield from _listed(window)
        if self.end and trigger:
            yield from spaces(window)
            yield from literal(window, self.end)


def _listed(window: Window) -> Reader:
    yield from literal(window, "[")
    while True:
        yield from spaces(window)
        yield from _call(window)
        yield from spaces(window)
        if (yield from literal(window, ",", "]")) == "]":
            return


def _call(window: Window) -> Reader:
    name = yield from _name(window)
    yield from spaces(window)
    yield from literal(window, "(")
    yield Name(name)
    is_first = True
    while True:
        yield from spaces(window)
        if window.text[0] == ")":
            window.take(1)
            break
        if not is_first:
            yield from literal(window, ",")
            yield from spaces(window)
            if window.text[0] == ")":
                continue
        key = yield from _name(window)
        yield from spaces(window)
        yield from literal(window, "=")
        yield from spaces(window)
        yield Arguments(f"{'{' if is_first else ', '}{json.dumps(key)}: ")
        is_first = False
        yield from _value(window)
    yield Arguments("{}" if is_first else "}")
    yield End()


def _name(window: Window) -> Generator[Said, None, str]:
    while True:
        found = _NAME.match(window.text)
        if found is None and window.text:
            raise Malformed
        if found is not None and found.end() > _MAX_NAME:
            raise Malformed
        if found is not None and (found.end() < len(window.text) or window.is_final):
            return window.take(found.end())
        yield from more(window)


def _value(window: Window) -> Reader:
    if window.text[0] in "'\"":
        yield from _string(window)
        return
    scan = _Scan()
    while (at := scan.end(window.text)) is None:
        if len(window.text) > _MAX_VALUE:
            raise Malformed
        yield from more(window)
    yield Arguments(_json_of(window.take(at)))


class _Scan:
    """Finds where a value ends: at a comma or bracket that is not its own."""

    def __init__(self) -> None:
        self._at = 0
        self._depth = 0
        self._quote = ""

    def end(self, text: str) -> int | None:
        """None: not in this text, to which more may be added."""
        while self._at < len(text):
            character = text[self._at]
            if self._quote:
                self._at += character == "\\"
                self._quote = "" if character == self._quote else self._quote
            elif self._depth == 0 and character in ",)":
                return self._at
            else:
                self._enter(character)
            self._at += 1
        return None

    def _enter(self, character: str) -> None:
        if character in "'\"":
            self._quote = character
        elif character in "([{":
            self._depth += 1
        elif character in ")]}":
            self._depth -= 1
            if self._depth < 0:
                raise Malformed


def _json_of(text: str) -> str:
    """A literal as JSON, of JSON's words or Python's; what is JSON already as it stands."""
    if _is_json(text):
        return text.strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would quote the output
            tree = ast.parse(text.strip(), mode="eval")
        for node in ast.walk(tree):
            for name, child in list(ast.iter_fields(node)):
                setattr(node, name, _worded(child))
        said = json.dumps(ast.literal_eval(tree), ensure_ascii=False, allow_nan=False)
        return said.encode("utf-16", "surrogatepass").decode("utf-16")  # pairs of escapes are characters
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise Malformed from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"not JSON: {constant}")


def _worded(child: object) -> object:
    if isinstance(child, list):
        return [_worded(one) for one in child]
    if isinstance(child, ast.Name) and child.id in _WORDS:
        return ast.copy_location(ast.Constant(_WORDS[child.id]), child)
    return child


def _string(window: Window) -> Reader:
    """A string as JSON, three quotes or one."""
    quote = window.text[0]
    opening = yield from peek(window, 3)
    quote = quote * 3 if opening == quote * 3 else quote
    window.take(len(quote))
    yield Arguments('"')
    while True:
        shown, is_over = [], False
        while window.text and not is_over:
            text = window.text
            stop = next((i for i, c in enumerate(text) if c in (quote[0], "\\")), len(text))
            if stop:
                shown.append(window.take(stop))
            elif text[0] == "\\":
                if (character := _escape(window)) is None:
                    break
                shown.append(character)
            elif text.startswith(quote):
                window.take(len(quote))
                is_over = True
            elif quote.startswith(text) and not window.is_final:
                break
            else:
                shown.append(window.take(1))
        if shown:
            yield Arguments(json.dumps("".join(shown), ensure_ascii=False)[1:-1])
        if is_over:
            break
        yield from more(window)
    yield Arguments('"')


def _escape(window: Window) -> str | None:
    """The character of an escape, taken; None if not all of it is there."""
    text = window.text
    if len(text) < 2:
        return None
    digits = _HEX_DIGITS.get(text[1])
    if digits is None:
        return _ESCAPES.get(text[1], text[:2]) if window.take(2) else None
    if len(text) < 2 + digits:
        return None
    number, size = _code(text[2 : 2 + digits]), 2 + digits
    if number in _HIGH:
        if len(text) < 2 * size:
            return None
        if text[size : size + 2] != text[:2] or (low := _code(text[size + 2 : 2 * size])) not in _LOW:
            raise Malformed
        number, size = 0x10000 + ((number - _HIGH.start) << 10) + low - _LOW.start, 2 * size
    if number > 0x10FFFF or number in _LOW:
        raise Malformed
    window.take(size)
    return chr(number)


def _code(digits: str) -> int:
    if re.fullmatch(r"[0-9A-Fa-f]+", digits) is None:
        raise Malformed
    return int(digits, 16)
