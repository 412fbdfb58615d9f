"""Reads the harmony format of gpt-oss: an output is a run of messages, and each one's header says what its body is.

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
    <|channel|>commentary to=functions.F <|constrain|>json<|message|>{…}<|call|>

A body for a recipient is a call, whatever its channel; without one, channel `analysis` is reasoning and every other is
text. The recipient may stand before the channel, the type with or without `<|constrain|>`. The first header lacks
`<|start|>assistant`, with which the prompt ends; the last message may lack its end.

Source: openai/harmony, docs/format.md.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dayzero.grammar.json_object import JsonObject
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text
from dayzero.grammar.tools import Calls, Tool
from dayzero.grammar.window import Markers, Piece, Window

START, MESSAGE, CHANNEL = "<|start|>", "<|message|>", "<|channel|>"
ENDS = ("<|end|>", "<|return|>", "<|call|>")
MAX_HEADER = 512  # characters: a name has at most 64; what is longer is no header but text that lost its marker

_HEADER_BEGINS = (START, CHANNEL, MESSAGE, "to=")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w*)")
_RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<]+)")
_ROLE = re.compile(r"<\|start\|>\s*([^\s<]*)")


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before a body. `size` is how far it was understood, in characters."""

    role: str
    channel: str
    recipient: str
    size: int

    @classmethod
    def read(cls, text: str) -> "Header":
        found = [pattern.search(text) for pattern in (_ROLE, _CHANNEL, _RECIPIENT)]
        role, channel, recipient = (match[1] if match is not None else "" for match in found)
        size = max((match.end() for match in found if match is not None), default=0)
        return cls(role or "assistant", channel, recipient, size)

    @staticmethod
    def has_begun(text: str) -> bool:
        return text.lstrip().startswith(_HEADER_BEGINS)

    @staticmethod
    def may_begin(text: str) -> bool:
        """Whether it is a header's beginning, or more characters could make it one."""
        text = text.lstrip()
        return text.startswith(_HEADER_BEGINS) or any(first.startswith(text) for first in _HEADER_BEGINS)


NO_HEADER = Header(role="assistant", channel="", recipient="", size=0)


class _Prose:
    """A body that is shown as it comes, or dropped when it is of no kind."""

    def __init__(self, kind: type[Text] | type[Reasoning] | None, *, separator: str = "") -> None:
        self.kind = kind
        self.has_spoken = False
        self.is_in_string = False
        self._separator = separator  # before its first character, if it has one

    def feed(self, text: str) -> list[Part]:
        if self.kind is None or not text:
            return []
        shown = text if self.has_spoken else self._separator + text
        self.has_spoken = True
        return [self.kind(shown)]

    def end(self) -> list[Part]:
        return []


class _Call:
    def __init__(self, index: int) -> None:
        self._index = index
        self._object = JsonObject()
        self._is_empty = True

    def feed(self, text: str) -> list[Part]:
        text = text.lstrip() if self._is_empty else text
        end = self._object.feed(text)
        text = text if self._object.is_broken else text[:end]  # broken or not, it is what the tool was sent
        self._is_empty = self._is_empty and not text
        return [CallArguments(self._index, text)] if text else []

    @property
    def is_in_string(self) -> bool:
        """A marker that comes now is what the argument says."""
        return self._object.is_in_string

    def end(self) -> list[Part]:
        """A call without a body has no arguments."""
        if self._is_empty:
            return [CallArguments(self._index, "{}"), CallEnded(self._index, is_complete=True)]
        return [CallEnded(self._index, is_complete=self._object.is_complete)]


class HarmonyParser:
    """Reads one output. What it yields together does not depend on how the output was cut into pieces.

    A recipient that is no offered tool makes no call: its body is what its channel says. A message for the assistant,
    or of another role, is what a tool would have said; the model made it up, and it is dropped.

    calls           "suppress": calls are read and dropped; "ignore": nothing is a call
    parallel        False: calls after the first are dropped
    marker_tokens   markers that are one token in this vocabulary: spelt out, they are text
    has_misread     a call ended before its arguments did
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        starts_in_reasoning: bool = False,
        marker_tokens: frozenset[str] = frozenset(),
        calls: Calls = "parse",
        parallel: bool = True,
    ) -> None:
        self._names = frozenset(tool.name for tool in tools) if calls != "ignore" else frozenset()
        self.has_misread = False
        self._calls = calls
        self._parallel = parallel
        self._window = Window(marker_tokens)
        self._header_ends = Markers((MESSAGE, *ENDS), marker_tokens)
        self._body_ends = Markers((*ENDS, START, CHANNEL), marker_tokens)  # a message's own end may be missing
        self._num_calls = 0
        self._spoken: set[type[Part]] = set()  # the kinds that earlier messages were of
        self._body: _Prose | _Call | None = _Prose(Reasoning) if starts_in_reasoning else None

    @property
    def is_reasoning(self) -> bool:
        return isinstance(self._body, _Prose) and self._body.kind is Reasoning

    def push(self, pieces: Iterable[Piece]) -> list[Part]:
        self._window.push(pieces)
        parts: list[Part] = []
        while self._read_header(parts) if self._body is None else self._read_body(self._body, parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """The rest, now that no more will come. A header that was cut says nothing."""
        self._window.is_final = True
        if self._body is None and not Header.has_begun(self._window.text):
            self._open(NO_HEADER, 0, [])
        parts = self.push(())
        if self._body is not None:
            self._close(self._body, parts)
        return parts

    def _read_header(self, parts: list[Part]) -> bool:
        """Whether a body was begun."""
        text = self._window.text
        if not text.strip():
            return False
        if not Header.may_begin(text):
            return self._open(NO_HEADER, 0, parts)
        found = self._window.find(self._header_ends)
        if found.marker == MESSAGE and found.at <= MAX_HEADER:
            return self._open(Header.read(text[: found.at]), found.at + len(MESSAGE), parts)
        if found.marker is None and found.at <= MAX_HEADER:
            return False
        # A header that lost its `<|message|>`: what follows the last thing understood is the body.
        header = Header.read(text[: min(found.at, MAX_HEADER)])
        return self._open(header, header.size, parts)

    def _open(self, header: Header, size: int, parts: list[Part]) -> bool:
        """Begin the body that the header announces, which begins after `size` characters."""
        self._window.take(size)
        name = header.recipient.removeprefix("functions.")
        is_full = self._num_calls > 0 and not self._parallel
        is_unwanted = name in self._names and (is_full or self._calls == "suppress")
        if is_unwanted or header.role != "assistant" or header.recipient == "assistant":
            self._body = _Prose(None)
        elif name in self._names:
            parts.append(CallStarted(self._num_calls, name))
            self._body = _Call(self._num_calls)
            self._num_calls += 1
        else:
            kind = Reasoning if header.channel == "analysis" else Text
            self._body = _Prose(kind, separator="\n" if kind in self._spoken else "")
        return True

    def _read_body(self, body: _Prose | _Call, parts: list[Part]) -> bool:
        """Whether a marker was found, and with it perhaps the body's end."""
        found = self._window.find(self._body_ends)
        parts += body.feed(self._window.take(found.at))
        if found.marker is None:
            return False
        if body.is_in_string and found.marker not in self._body_ends.as_tokens:
            parts += body.feed(self._window.take(len(found.marker)))
            return True
        self._close(body, parts)
        if found.marker in ENDS:
            self._window.take(len(found.marker))
        return True

    def _close(self, body: _Prose | _Call, parts: list[Part]) -> None:
        ended = body.end()
        self.has_misread |= any(isinstance(part, CallEnded) and not part.is_complete for part in ended)
        parts += ended
        if isinstance(body, _Prose) and body.kind is not None and body.has_spoken:
            self._spoken.add(body.kind)
        self._body = None
