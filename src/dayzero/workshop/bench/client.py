"""One turn of a session -> one HTTP request -> one Timeline.

Reads raw chunks and stamps them; decodes when the stream has ended. Never raises for what a server does: a failure is
a Timeline. Cancellation is passed on, after the request was recorded as incomplete.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import msgspec

from dayzero.clock import Clock
from dayzero.workshop.bench.sse import Decoded, MalformedStream, Read, StreamedError, decode
from dayzero.workshop.bench.timeline import Failure, Status, Timeline
from dayzero.workshop.bench.workloads.session import Completion, Message, Prompt, Turn

MAX_STREAM_BYTES = 64 * 2**20
MAX_ERROR_BYTES = 64 * 2**10
MAX_MESSAGE_CHARS = 160
_QUOTE_CHARS = 24  # so many characters of a prompt inside an error message count as quoting it

Record = Callable[[Timeline], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What every request asks besides its prompt. `extra` fields are sent as they are, and win.

    guard_off   chats say that nobody shall watch them for repetition: a retry takes time that no other server spends.
                Only dayzero knows the field; another server may refuse it
    """

    model: str
    max_tokens: int = 128
    temperature: float = 0.0
    ignore_eos: bool = False
    guard_off: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)

    def body(self, max_tokens: int | None) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": max_tokens or self.max_tokens,
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        return body | dict(self.extra)


@dataclass(frozen=True, slots=True)
class Place:
    """Which request of the load this is, and when it was due (see Timeline)."""

    session: int
    turn: int
    due_s: float | None = None


class Client:
    """Sends turns to one base URL. The HTTP session belongs to the caller."""

    def __init__(
        self, http: aiohttp.ClientSession, base_url: str, sampling: Sampling, clock: Clock, *, timeout_s: float
    ) -> None:
        self._http = http
        self._base_url = base_url
        self._sampling = sampling
        self._clock = clock
        self._timeout_s = timeout_s

    async def send(self, turn: Turn, history: Sequence[Message], place: Place, record: Record) -> tuple[Timeline, str]:
        """Send one turn and record its Timeline; return that and the text that came."""
        path, body = self._request(turn, history)
        attempt = _Attempt(place, self._clock)
        try:
            async with asyncio.timeout(self._timeout_s):
                await attempt.run(self._http, self._base_url + path, body)
        except TimeoutError:
            attempt.fail("timeout", f"no end within {self._timeout_s:g} s")
        except aiohttp.ClientConnectorError as error:
            attempt.fail("connect", str(error.os_error.strerror or type(error.os_error).__name__))
        except (aiohttp.ClientError, ConnectionError) as error:
            attempt.fail("disconnected", type(error).__name__)
        except asyncio.CancelledError:
            record(attempt.timeline(Status.INCOMPLETE))
            raise
        timeline = attempt.timeline()
        if timeline.failure and quotes(timeline.failure.message, _texts(turn, history)):
            attempt.fail(timeline.failure.kind, "(withheld: the message quotes the prompt)")
            timeline = attempt.timeline()
        record(timeline)
        return timeline, attempt.text

    def _request(self, turn: Turn, history: Sequence[Message]) -> tuple[str, bytes]:
        body = self._sampling.body(turn.max_tokens)
        if isinstance(turn, Completion):
            return "/v1/completions", msgspec.json.encode(body | {"prompt": turn.prompt})
        guard = {"collapse_guard": "off"} if self._sampling.guard_off else {}
        return "/v1/chat/completions", msgspec.json.encode(guard | body | {"messages": [*history, *turn.messages]})


class _Attempt:
    """One request on its way: the reads so far, and the failure if there is one."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._sent_s = clock.now_s()
        self._reads: list[Read] = []
        self._failure: Failure | None = None
        self._retry_after_s: float | None = None
        self._decoded = Decoded()

    @property
    def text(self) -> str:
        return "".join(self._decoded.text)

    async def run(self, http: aiohttp.ClientSession, url: str, body: bytes) -> None:
        now_s = self._clock.now_s
        self._sent_s = now_s()
        async with http.post(url, data=body, headers={"content-type": "application/json"}) as response:
            if response.status != 200:
                self._retry_after_s = _seconds(response.headers.get("retry-after"))
                self.fail(f"http {response.status}", error_message(await read_bounded(response, MAX_ERROR_BYTES)))
                return
            content, reads, num_bytes = response.content, self._reads, 0
            while data := await content.readany():
                reads.append((now_s(), data))
                num_bytes += len(data)
                if num_bytes > MAX_STREAM_BYTES:
                    self.fail("too long", f"a stream of more than {MAX_STREAM_BYTES} bytes")
                    return

    def fail(self, kind: str, message: str) -> None:
        self._failure = Failure(kind, message[:MAX_MESSAGE_CHARS])

    def timeline(self, status: Status | None = None) -> Timeline:
        """Decode what came. `status` None: successful unless something failed or the stream has no end."""
        ended_s = self._clock.now_s()
        self._decoded = decoded = Decoded()
        try:
            decode(self._reads, decoded)
        except MalformedStream:
            self._failure = self._failure or Failure("malformed", "a chunk is not the JSON of a completion")
        except StreamedError as error:
            self._failure = self._failure or Failure("error in stream", _first_line(str(error)))
        if status is None:
            if self._failure is None and not decoded.finished:
                self._failure = Failure("cut short", "the stream ended without a finish reason")
            status = Status.FAILED if self._failure else Status.SUCCESSFUL
        successful = status is Status.SUCCESSFUL
        return Timeline(
            session=self._place.session,
            turn=self._place.turn,
            due_s=self._sent_s if self._place.due_s is None else self._place.due_s,
            sent_s=self._sent_s,
            ended_s=decoded.end_s if successful and decoded.end_s is not None else ended_s,
            outputs_s=tuple(decoded.outputs_s),
            status=status,
            failure=self._failure if status is Status.FAILED else None,
            usage=decoded.usage,
            retry_after_s=self._retry_after_s,
        )


async def read_bounded(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """The body, or its first `limit_bytes` or a little more."""
    body = b""
    while len(body) < limit_bytes and (data := await response.content.readany()):
        body += data
    return body


class _ErrorText(msgspec.Struct):
    message: str = ""


class _ErrorBody(msgspec.Struct):
    error: _ErrorText | str | None = None
    message: str | None = None


def error_message(body: bytes) -> str:
    """The message of an OpenAI-style error body; "" if it has none. Other bodies are not shown."""
    try:
        decoded = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    error = decoded.error
    return _first_line((error.message if isinstance(error, _ErrorText) else error) or decoded.message or "")


def quotes(message: str, texts: Sequence[str]) -> bool:
    """Whether 24 characters in a row of `message` stand in one of `texts`."""
    starts = range(len(message) - _QUOTE_CHARS + 1)
    return any(message[start : start + _QUOTE_CHARS] in text for start in starts for text in texts)


def _texts(turn: Turn, history: Sequence[Message]) -> list[str]:
    if isinstance(turn, Completion):
        return [_prompt_text(turn.prompt)]
    contents = [message.get("content") for message in (*history, *turn.messages)]
    return [content if isinstance(content, str) else msgspec.json.encode(content).decode() for content in contents]


def _prompt_text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else str(list(prompt))


def _first_line(message: str) -> str:
    return message.strip().split("\n", 1)[0][:MAX_MESSAGE_CHARS]


def _seconds(value: str | None) -> float | None:
    """`retry-after` in seconds; its form as a date is not worth a parser here."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None
