"""What each chunk of a stream changes in the JSON documents of an answer: its text, the arguments of its calls.

A client that applies the changes in order has the document as far as it is written, without a parser of its own. Each
change says only what is new, so a stream grows with the document, not with its square.

A change has a `path`, a JSON Pointer, and any of these, in this order:

    value      what is at that path from now on: a number, true, false, null, {} or [], or a string as far as it goes
    append     more of the string there
    complete   true: what is there is whole
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from dayzero.errors import RequestError
from dayzero.grammar.partial_json import Begun, Ended, Fragment, PartialJson, Reading, Scalar
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Text

_EMPTY = {"object": b"{}", "array": b"[]"}
_JSON = {True: b"true", False: b"false", None: b"null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOutput:
    """What of a request's answers is JSON.

    text         the text is to be
    has_schema   a grammar made of a schema binds the text from its first character
    calls        tools may be called
    can_be_cut   a stop string or token of the request may end an output where the grammar would not
    """

    text: bool = False
    has_schema: bool = False
    calls: bool = False
    can_be_cut: bool = False


def changes_of(output: JsonOutput, *, is_asked: bool) -> "JsonChanges | None":
    """None: not asked for. Raises RequestError if nothing would be told."""
    if is_asked and not (output.text or output.calls):
        raise RequestError(
            "partial_json of an answer that is no JSON",
            param="stream_options.partial_json",
            hint="send response_format, or tools that may be called",
        )
    return JsonChanges(output) if is_asked else None


class JsonChanges:
    """Of all choices of a request. What it writes is the value of `partial_json` in a chunk; b"": nothing changed."""

    def __init__(self, output: JsonOutput) -> None:
        self._output = output
        self._texts: dict[int, PartialJson] = {}
        self._calls: dict[tuple[int, int], PartialJson] = {}

    def of_part(self, choice: int, part: Part) -> bytes:
        """What a part changes. With the end of a call, whether its arguments are whole."""
        match part:
            case Text(text):
                return self.of_text(choice, text)
            case CallStarted(index, _):
                self._calls[choice, index] = PartialJson()
            case CallArguments(index, text):
                readings = self._calls[choice, index].push(text)
                return b'{"tool_call":%d,"changes":%s}' % (index, written(readings)) if readings else b""
            case CallEnded(index, is_complete):
                document = self._calls[choice, index]
                readings = document.finish()
                verdict = _JSON[is_complete and document.is_complete and not document.is_broken]
                return b'{"tool_call":%d,"changes":%s,"complete":%s}' % (index, written(readings), verdict)
        return b""

    def of_text(self, choice: int, text: str, finish: str | None = None) -> bytes:
        """What more of a choice's text changes. With its `finish`, that of a delta, what came of all of it.

        An answer that is calls alone has no text that anything could be said of.
        """
        is_calls_alone = not text and choice not in self._texts and (choice, 0) in self._calls
        if not self._output.text or is_calls_alone:
            return b""
        document = self._texts.setdefault(choice, PartialJson())
        readings = document.push(text)
        if finish is None:
            return b'{"changes":%s}' % written(readings) if readings else b""
        if finish == "stop":  # what was cut may have been half a number
            readings += document.finish()
        is_complete = document.is_complete and not document.is_broken
        verdicts = _JSON[is_complete], _JSON[self._is_valid(document) if is_complete else False]
        return b'{"changes":%s,"complete":%s,"valid":%s}' % (written(readings), *verdicts)

    def _is_valid(self, document: PartialJson) -> bool | None:
        """Whether a whole document is what was asked for; None if nobody knows.

        Its grammar allowed every character, and would let nothing but blanks follow: so it accepts the document, unless
        that is a number, which may have been cut. What grammars do not notice is a name that comes twice, or is spelled
        with an escape.
        """
        if not self._output.has_schema:
            return True
        may_be_cut = document.is_number and self._output.can_be_cut
        return True if document.has_plain_names and not may_be_cut else None


@dataclass(slots=True)
class _Change:
    """value   as JSON; None: what is there stays, or it is a string, whose text is `gained`."""

    path: str
    begins: bool = False
    value: bytes | None = None
    gained: list[str] = field(default_factory=list)
    is_complete: bool = False

    def written(self) -> bytes:
        parts = [b'"path":' + _text(self.path)]
        if self.begins:
            parts.append(b'"value":' + (_text("".join(self.gained)) if self.value is None else self.value))
        elif self.gained:
            parts.append(b'"append":' + _text("".join(self.gained)))
        if self.is_complete:
            parts.append(b'"complete":true')
        return b"{%s}" % b",".join(parts)


def written(readings: Sequence[Reading]) -> bytes:
    """Readings as a list of changes, in order."""
    changes: list[_Change] = []
    for reading in readings:
        goes_on = bool(changes) and changes[-1].path == reading.path
        match reading:
            case Begun(path, kind):
                changes.append(_Change(path, begins=True, value=_EMPTY.get(kind)))
            case Scalar(path, literal):
                changes.append(_Change(path, begins=True, value=literal.encode(), is_complete=True))
            case Fragment(path, text):
                if not goes_on:
                    changes.append(_Change(path))
                changes[-1].gained.append(text)
            case Ended(path):
                if not goes_on:
                    changes.append(_Change(path))
                changes[-1].is_complete = True
    return b"[%s]" % b",".join(change.written() for change in changes)


def _text(text: str) -> bytes:
    """As JSON. Half a surrogate pair, which an escape in a document can be, is escaped: UTF-8 has none."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()
