"""Reads the harmony format of gpt-oss: an output is a run of messages, and each one's header says what its body is.

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
    <|channel|>commentary to=functions.F <|constrain|>json<|message|>{…}<|call|>

A body for a recipient is a call, whatever its channel; without one, channel `analysis` is reasoning and every other is
text. The recipient may stand before the channel, the type with or without `<|constrain|>`. The first header lacks
`<|start|>assistant`, with which the prompt ends; the last message may lack its end.

Source: openai/harmony, docs/format.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dayzero.grammar.json_object import JsonObject
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text
from dayzero.grammar.tools import Tool

START, MESSAGE, CHANNEL = "<|start|>", "<|message|>", "<|channel|>"
ENDS = ("<|end|>", "<|return|>", "<|call|>")
MAX_HEADER = 512  # characters: a name has at most 64; what is longer is no header but text that lost its marker

_HEADER_BEGINS = (START, CHANNEL, MESSAGE, "to=")
_LONGEST = max(len(marker) for marker in (*ENDS, START, CHANNEL))
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w*)")
_RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<]+)")
_ROLE = re.compile(r"<\|start\|>\s*([^\s<]*)")
_HEADER_ENDS = re.compile("|".join(re.escape(marker) for marker in (MESSAGE, *ENDS)))
# A message may begin where the last one's end is missing.
_BODY_ENDS = re.compile("|".join(re.escape(marker) for marker in (*ENDS, START, CHANNEL)))


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before a body. `rest` is what follows the last thing that was understood."""

    role: str
    channel: str
    recipient: str
    rest: str

    @classmethod
    def read(cls, text: str) -> "Header":
        found = [pattern.search(text) for pattern in (_ROLE, _CHANNEL, _RECIPIENT)]
        role, channel, recipient = (match[1] if match is not None else "" for match in found)
        rest = text[max((match.end() for match in found if match is not None), default=0) :]
        return cls(role or "assistant", channel, recipient, rest)

    @staticmethod
    def has_begun(text: str) -> bool:
        return text.lstrip().startswith(_HEADER_BEGINS)

    @staticmethod
    def may_begin(text: str) -> bool:
        """Whether it is a header's beginning, or more characters could make it one."""
        text = text.lstrip()
        return text.startswith(_HEADER_BEGINS) or any(first.startswith(text) for first in _HEADER_BEGINS)


NO_HEADER = Header(role="assistant", channel="", recipient="", rest="")


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
        text = text[: self._object.feed(text)]
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
    """

    def __init__(self, tools: Sequence[Tool], *, starts_in_reasoning: bool = False) -> None:
        self._names = frozenset(tool.name for tool in tools)
        self._num_calls = 0
        self._spoken: set[type[Part]] = set()  # the kinds that earlier messages were of
        self._buffer = ""
        self._body: _Prose | _Call | None = _Prose(Reasoning) if starts_in_reasoning else None

    def push(self, pieces: Sequence[str]) -> list[Part]:
        self._buffer += "".join(pieces)
        parts: list[Part] = []
        while self._read_header(parts) if self._body is None else self._read_body(self._body, parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """The rest, now that no more will come."""
        parts: list[Part] = []
        if self._body is None and not Header.has_begun(self._buffer):
            self._open(NO_HEADER, self._buffer, parts)
        if self._body is not None:
            parts += self._body.feed(self._buffer)
            self._close(self._body, parts)
        self._buffer = ""
        return parts

    def _read_header(self, parts: list[Part]) -> bool:
        """Whether a body was begun."""
        buffer = self._buffer
        if not buffer.strip():
            return False
        if not Header.may_begin(buffer):
            return self._open(NO_HEADER, buffer, parts)
        marker = _HEADER_ENDS.search(buffer, 0, MAX_HEADER)
        if marker is not None and marker[0] == MESSAGE:
            return self._open(Header.read(buffer[: marker.start()]), buffer[marker.end() :], parts)
        if marker is None and len(buffer) < MAX_HEADER:
            return False
        # A header that lost its `<|message|>`: what follows the last thing understood is the body.
        cut = MAX_HEADER if marker is None else marker.start()
        header = Header.read(buffer[:cut])
        return self._open(header, header.rest + buffer[cut:], parts)

    def _open(self, header: Header, rest: str, parts: list[Part]) -> bool:
        """Begin the body that the header announces, which goes on in `rest`."""
        self._buffer = rest
        name = header.recipient.removeprefix("functions.")
        if header.role != "assistant" or header.recipient == "assistant":
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
        """Whether the body ended, or a marker turned out to be part of it."""
        marker = _BODY_ENDS.search(self._buffer)
        if marker is None:
            cut = len(self._buffer) - _held(self._buffer)
            parts += body.feed(self._buffer[:cut])
            self._buffer = self._buffer[cut:]
            return False
        parts += body.feed(self._buffer[: marker.start()])
        if body.is_in_string:
            parts += body.feed(marker[0])
        else:
            self._close(body, parts)
        is_read = self._body is not None or marker[0] in ENDS
        self._buffer = self._buffer[marker.end() if is_read else marker.start() :]
        return True

    def _close(self, body: _Prose | _Call, parts: list[Part]) -> None:
        parts += body.end()
        if isinstance(body, _Prose) and body.kind is not None and body.has_spoken:
            self._spoken.add(body.kind)
        self._body = None


def _held(text: str) -> int:
    """The length of the longest end of `text` that a marker may begin with."""
    at = text.rfind("<", max(0, len(text) - _LONGEST + 1))
    suffix = text[at:] if at >= 0 else ""
    return len(suffix) if any(marker.startswith(suffix) for marker in (*ENDS, START, CHANNEL)) else 0
