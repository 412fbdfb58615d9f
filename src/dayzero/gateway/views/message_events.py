"""An answer in blocks, as Anthropic's API writes it: events of a stream, or the content of a message.

Both are made of the same events, so that they cannot say different things.
"""

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from dayzero.gateway.generate import Usage
from dayzero.gateway.replies import anthropic_error
from dayzero.gateway.stream import Delta
from dayzero.gateway.views.format import collapse_object
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text, joined

Event = dict[str, Any]
Thinking = Literal["shown", "omitted", "left out"]


class Blocks:
    """The blocks of one answer, of which one is open at a time: white space alone is none.

    thinking   "omitted": that the model thought is told, but not what; "left out": not even that
    called     a call was complete
    """

    def __init__(self, thinking: Thinking = "shown") -> None:
        self.called = False
        self._thinking = thinking
        self._index = -1
        self._open: str | None = None
        self._held = ""  # white space that a block may begin with
        self._held_for = ""
        self._thought = hashlib.sha256()

    def push(self, part: Part) -> list[Event]:
        match part:
            case Text(text):
                return self._stretch("text", text)
            case Reasoning(text):
                return [] if self._thinking == "left out" else self._stretch("thinking", text)
            case CallStarted(_, name):
                block = {"type": "tool_use", "id": f"toolu_{secrets.token_hex(12)}", "name": name, "input": {}}
                return self._begin(block)
            case CallArguments(_, text):
                return [self._delta({"type": "input_json_delta", "partial_json": text})]
            case CallEnded(_, is_complete):
                self.called |= is_complete
                return self.close()

    def close(self) -> list[Event]:
        """The end of the open block, if there is one."""
        if self._open is None:
            return []
        events: list[Event] = []
        if self._open == "thinking":
            events.append(self._delta({"type": "signature_delta", "signature": self._thought.hexdigest()}))
        self._open = None
        return [*events, {"type": "content_block_stop", "index": self._index}]

    def _stretch(self, kind: Literal["text", "thinking"], text: str) -> list[Event]:
        """More of a block of this kind; a new one, once there is more than white space for it."""
        events: list[Event] = []
        if self._open != kind:
            self._held = (self._held if self._held_for == kind else "") + text
            self._held_for = kind
            if not self._held.strip():
                return []
            text = self._held
            events = self._begin({"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})})
        if kind == "thinking":
            self._thought.update(text.encode())
            if self._thinking == "omitted":
                return events
        return [*events, self._delta({"type": f"{kind}_delta", kind: text})]

    def _begin(self, block: dict[str, Any]) -> list[Event]:
        events = self.close()
        self._index += 1
        self._open, self._held = block["type"], ""
        self._thought = hashlib.sha256()
        return [*events, {"type": "content_block_start", "index": self._index, "content_block": block}]

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def content_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """What the events come to. Arguments that were cut are an empty object: half of one is no JSON."""
    content: list[dict[str, Any]] = []
    for event in events:
        match event:
            case {"content_block": block}:
                content.append(dict(block))
            case {"delta": {"type": "input_json_delta", "partial_json": text}}:
                content[-1]["input"] = _object(text)
            case {"delta": {"type": "signature_delta", "signature": signature}}:
                content[-1]["signature"] = signature
            case {"delta": {"type": "text_delta", "text": text}}:
                content[-1]["text"] += text
            case {"delta": {"type": "thinking_delta", "thinking": text}}:
                content[-1]["thinking"] += text
    return content


class MessagesFormat:
    """Messages on the wire.

    is_clamped   the context has no room for as many tokens as were asked for
    """

    def __init__(
        self, *, model: str, request_id: str, prompt_tokens: int, is_clamped: bool, thinking: Thinking = "shown"
    ) -> None:
        self._request_id = request_id
        self._prompt_tokens = prompt_tokens
        self._is_clamped = is_clamped
        self._blocks = Blocks(thinking)
        self._last = Delta(0)
        self._encode = msgspec.json.Encoder().encode
        self._message = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }

    def opening(self) -> bytes:
        """Nothing: the first event tells what of the prompt was cached, which is known with the first delta."""
        return b""

    def chunk(self, delta: Delta) -> bytes:
        events: list[Event] = []
        if delta.cached_tokens is not None:
            usage = usage_object(Usage(self._prompt_tokens, 0, delta.cached_tokens))
            no_end: Event = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            events = [{"type": "message_start", "message": {**self._message, **no_end}}, {"type": "ping"}]
        for part in delta.parts:
            events += self._blocks.push(part)
        if delta.finish is not None:
            events += self._blocks.close()
        self._last = delta
        return self._written(events)

    def closing(self, usage: Usage) -> bytes:
        delta = {"type": "message_delta", "delta": self._end(self._last), "usage": usage_object(usage)}
        return self._written([delta, {"type": "message_stop"}])

    def failure(self, error: BaseException) -> bytes:
        return self._written([anthropic_error(error, self._request_id)])

    def whole(self, choices: Sequence[Sequence[Delta]], usage: Usage) -> bytes:
        (deltas,) = choices
        parts = joined(part for delta in deltas for part in delta.parts)
        content = content_of([event for part in parts for event in self._blocks.push(part)] + self._blocks.close())
        end = {**self._end(deltas[-1]), "usage": usage_object(usage)}
        return self._encode({**self._message, "content": content, **end})

    def _written(self, events: Sequence[Event]) -> bytes:
        return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), self._encode(e)) for e in events)

    def _end(self, last: Delta) -> dict[str, Any]:
        """Why the answer ended. A complete call is a reason of its own, unless the output was cut."""
        reason = "end_turn"
        if last.finish == "length":
            was_guarded = last.collapse is not None and last.collapse.is_end
            reason = "model_context_window_exceeded" if self._is_clamped and not was_guarded else "max_tokens"
        elif self._blocks.called:
            reason = "tool_use"
        elif last.stop is not None:
            reason = "stop_sequence"
        stop = last.stop if reason == "stop_sequence" else None
        return {**collapse_object(last), "stop_reason": reason, "stop_sequence": stop}


def usage_object(usage: Usage) -> dict[str, Any]:
    """Tokens of the prompt are counted once: those from the cache apart from the others."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _object(text: str) -> object:
    """The JSON of an object as the model wrote it, an empty one if it is none."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return msgspec.Raw(text.encode())
