"""Reads a call that is one JSON object: {"name": "f", "arguments": {...}}, its keys in any order.

What is between the braces of the arguments passes through byte for byte, as it comes, once the name is known.
"""

import json
from collections.abc import Generator

from dayzero.grammar.json_object import JsonObject
from dayzero.grammar.window import Arguments, End, Malformed, Name, Reader, Said, Window, literal, more, peek, spaces

NAME_KEYS = frozenset({"name", "function"})
ARGUMENT_KEYS = frozenset({"arguments", "parameters"})
_MAX_KEY = 512  # characters of a key, a name, or a value that means nothing here
_MAX_ENCODED = 1_000_000  # characters of arguments that are JSON within a JSON string


def envelope(window: Window, *, needs_arguments: bool) -> Reader:
    """One call. Malformed if it has no name, or no arguments that it needs."""
    yield from literal(window, "{")
    name: str | None = None
    early: str | None = None  # arguments that came before the name
    has_arguments = False
    while True:
        yield from spaces(window)
        if window.text[0] == "}":
            window.take(1)
            break
        key = yield from string(window, _MAX_KEY)
        yield from spaces(window)
        yield from literal(window, ":")
        yield from spaces(window)
        if key in NAME_KEYS and name is None:
            name = yield from string(window, _MAX_KEY)
        elif key in ARGUMENT_KEYS and not has_arguments:
            has_arguments = True
            if name is not None:
                yield Name(name)
                yield from arguments(window)
            else:
                early = yield from _collected(window)
        else:
            yield from _skipped(window)
        yield from spaces(window)
        if (yield from literal(window, ",", "}")) == "}":
            break
    if name is None or (needs_arguments and not has_arguments):
        raise Malformed
    if not has_arguments or early is not None:
        yield Name(name)
        yield Arguments(early or "{}")
    yield End()


def arguments(window: Window) -> Reader:
    """An object as it comes; one that was encoded once more, as a string, once it is complete; null is empty."""
    first = yield from peek(window, 1)
    if first == "{":
        yield from _object(window)
    elif first == '"':
        encoded = yield from string(window, _MAX_ENCODED)
        if not _is_object(encoded):
            raise Malformed
        yield Arguments(encoded)
    else:
        yield from literal(window, "null")
        yield Arguments("{}")


def string(window: Window, limit: int) -> Generator[Said, None, str]:
    """A JSON string, taken. Malformed beyond `limit` characters."""
    if (yield from peek(window, 1)) != '"':
        raise Malformed
    at = 1
    while True:
        while at < len(window.text) and window.text[at] != '"':
            at += 2 if window.text[at] == "\\" else 1
        if at > limit:
            raise Malformed
        if at < len(window.text):
            break
        yield from more(window)
    try:
        found = json.loads(window.take(at + 1), strict=False)
        found.encode()  # half a pair of surrogates is no text
    except ValueError:
        raise Malformed from None
    assert isinstance(found, str)
    return found


def _object(window: Window) -> Reader:
    reader = JsonObject()
    said: list[str] = []
    while True:
        text = window.take(reader.feed(window.text))
        if text:
            said.append(text)
            yield Arguments(text)
        if reader.is_broken:
            raise Malformed
        if reader.is_complete:
            break
        yield from more(window)
    if not _is_object("".join(said)):
        raise Malformed


def _collected(window: Window) -> Generator[Said, None, str]:
    parts: list[str] = []
    for said in arguments(window):
        if isinstance(said, Arguments):
            parts.append(said.text)
        else:
            yield said
    return "".join(parts)


def _skipped(window: Window) -> Reader:
    """A value that means nothing for the call: a string, an object, or a word."""
    first = yield from peek(window, 1)
    if first == '"':
        yield from string(window, _MAX_KEY)
        return
    if first == "{":
        yield from (said for said in _object(window) if not isinstance(said, Arguments))
        return
    at = 0
    while True:
        while at < len(window.text) and window.text[at] not in ",}":
            at += 1
        if at > _MAX_KEY:
            raise Malformed
        if at < len(window.text):
            break
        yield from more(window)
    try:
        json.loads(window.take(at))
    except ValueError:
        raise Malformed from None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
