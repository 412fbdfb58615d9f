"""Responses on the wire: one object, or events that lead to the same object."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dayzero.errors import CapacityError, RequestError
from dayzero.gateway.errors import error_object
from dayzero.gateway.generate import Usage
from dayzero.gateway.stream import Delta
from dayzero.gateway.views.format import collapse_object
from dayzero.gateway.views.responses_events import Event, OutputItems

Keep = Callable[[bytes], bool]


class ResponsesFormat:
    """One response. Its events are numbered from 0 without gaps; one of completed, incomplete and failed is the last.

    response   its fields but for those that its end decides
    keep       takes a response that has ended, before a client can know that it has; False: it cannot be kept.
               None: nothing is to be kept
    """

    def __init__(self, response: Mapping[str, Any], *, keep: Keep | None = None) -> None:
        self._response = response
        self._keep = keep
        self._output = OutputItems()
        self._last: Delta | None = None
        self._next_number = 0
        self._encode = msgspec.json.Encoder().encode

    def opening(self) -> bytes:
        begun = self._as("in_progress", output=[])
        return self._written(
            [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
        )

    def chunk(self, delta: Delta) -> bytes:
        return self._written(self._take(delta))

    def closing(self, usage: Usage) -> bytes:
        response, body = self._ended(usage)
        return self._written([{"type": f"response.{response['status']}", "response": msgspec.Raw(body)}])

    def failure(self, error: BaseException) -> bytes:
        told = error_object(error)
        events = self._output.close(is_complete=False)
        events.append({"type": "error", "code": told["code"], "message": told["message"], "param": told["param"]})
        failed = {"code": _code(error), "message": told["message"]}
        events.append({"type": "response.failed", "response": self._as("failed", error=failed)})
        return self._written(events)

    def whole(self, choices: Sequence[Sequence[Delta]], usage: Usage) -> bytes:
        for delta in choices[0]:
            self._take(delta)
        return self._ended(usage)[1]

    def _take(self, delta: Delta) -> list[Event]:
        events = [event for part in delta.parts for event in self._output.push(part)]
        if delta.finish is not None:
            self._last = delta
            events += self._output.finish(is_complete=delta.finish == "stop")
        return events

    def _ended(self, usage: Usage) -> tuple[dict[str, Any], bytes]:
        """The response, and the same as JSON: what is kept is what is answered."""
        assert self._last is not None, "the output has not ended"
        told = {"usage": _usage_object(usage), **collapse_object(self._last)}
        if self._last.finish == "stop":
            response = self._as("completed", completed_at=int(time.time()), **told)
        else:
            response = self._as("incomplete", incomplete_details={"reason": "max_output_tokens"}, **told)
        body = self._encode(response)
        if self._keep is not None and not self._keep(body):
            response = {**response, "store": False}
            response.pop("x_retention", None)
            body = self._encode(response)
        return response, body

    def _as(self, status: str, **fields: Any) -> dict[str, Any]:
        return {**self._response, "status": status, "output": self._output.items, **fields}

    def _written(self, events: Sequence[Event]) -> bytes:
        written = []
        for event in events:
            numbered = {"type": event["type"], "sequence_number": self._next_number, **event}
            written.append(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), self._encode(numbered)))
            self._next_number += 1
        return b"".join(written)


def _usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


def _code(error: BaseException) -> str:
    """What is wrong with a failed response, in the few words that clients know of it."""
    match error:
        case RequestError():
            return "invalid_prompt"
        case CapacityError():
            return "rate_limit_exceeded"
    return "server_error"
