"""A streamed answer: bytes with their arrival times -> chunks of output, usage and end.

During the run only the bytes and the clock are kept; all decoding waits until the stream has ended, so that reading
one stream does not delay the time stamps of another. An event belongs to the read that completed it.

Knows nothing of sockets. Chunks of both /v1/completions and /v1/chat/completions are understood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from dayzero.workshop.bench.timeline import Usage

MAX_EVENT_BYTES = 4 * 2**20

Read = tuple[float, bytes]


class MalformedStream(Exception):
    """An event that is not the JSON of a chunk, or is too long to be one."""


class StreamedError(Exception):
    """The server reported an error inside the stream."""


@dataclass(slots=True)
class Decoded:
    """What a stream said.

    outputs_s  [chunks] arrival of each chunk that carried output: text, reasoning or a piece of a tool call
    end_s      arrival of the finish reason or of the last output, whichever came later; None: neither came
    finished   a finish reason or [DONE] was seen
    """

    outputs_s: list[float] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    end_s: float | None = None
    finished: bool = False
    usage: Usage | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Error(msgspec.Struct):
    message: str = ""


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | str | None = None


_decoder = msgspec.json.Decoder(_Chunk)


def decode(reads: Sequence[Read], into: Decoded) -> None:
    """Decode a whole stream. `into` is filled as far as the stream is sound, also when an error is raised."""
    for arrived_s, data in events(reads):
        if data == b"[DONE]":
            into.finished = True
            continue
        try:
            chunk = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise MalformedStream from None
        if chunk.error is not None:
            raise StreamedError(chunk.error if isinstance(chunk.error, str) else chunk.error.message)
        _take(chunk, arrived_s, into)


def events(reads: Sequence[Read]) -> Iterator[tuple[float, bytes]]:
    """The data of each server-sent event, with the arrival of the read that completed it.

    Raises MalformedStream where an event grows beyond MAX_EVENT_BYTES.
    """
    rest = b""
    for arrived_s, data in reads:
        rest += data
        if b"\r" in rest:
            rest = rest.replace(b"\r\n", b"\n")  # a lone \r at the end waits for its \n
        *blocks, rest = rest.split(b"\n\n")
        if len(rest) > MAX_EVENT_BYTES:
            raise MalformedStream
        for block in blocks:
            if event := _data(block):
                yield arrived_s, event


def _data(block: bytes) -> bytes:
    """The data lines of one event, joined; comments, ids and event names are dropped."""
    if b"\n" not in block:
        return block[5:].strip() if block.startswith(b"data:") else b""
    return b"\n".join(line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:"))


def _take(chunk: _Chunk, arrived_s: float, into: Decoded) -> None:
    for choice in chunk.choices:
        delta = choice.delta or _Delta()
        text = choice.text or delta.content or ""
        if text or delta.reasoning_content or delta.reasoning or delta.tool_calls:
            into.outputs_s.append(arrived_s)
            into.text.append(text)
            into.end_s = arrived_s
        if choice.finish_reason:
            into.finished = True
            into.end_s = arrived_s
    if chunk.usage is not None:
        details = chunk.usage.prompt_tokens_details
        cached_tokens = details.cached_tokens if details else None
        into.usage = Usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens, cached_tokens)
