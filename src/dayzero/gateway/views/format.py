"""Values that several APIs write in the same way."""

import math
from typing import Any

import msgspec

from dayzero.gateway.errors import error_object
from dayzero.gateway.generate import Usage
from dayzero.gateway.stream import Delta
from dayzero.text.tokenizer import Tokenizer

DONE = b"data: [DONE]\n\n"
LOWEST_LOGPROB = -9999.0  # JSON has no infinity


def finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else LOWEST_LOGPROB


def token_bytes_and_text(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    """A token as text, which may be a part of a character, and as the bytes that it really is."""
    raw = tokenizer.token_bytes(token)
    return {"token": raw.decode("utf-8", "replace"), "bytes": list(raw)}


def failure_events(error: BaseException) -> bytes:
    """The end of a stream that failed after its first byte."""
    return b"data: " + msgspec.json.encode({"error": error_object(error)}) + b"\n\n" + DONE


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def collapse_object(delta: Delta) -> dict[str, Any]:
    """What a choice says of an output that repeated itself; nothing if it did not."""
    collapse = delta.collapse
    if collapse is None:
        return {}
    told = {"tier": collapse.tier, "attempts": collapse.attempts, "discarded_tokens": collapse.discarded_tokens}
    return {**({"stop_reason": "repetition_detected"} if collapse.is_end else {}), "x_collapse": told}


def collapse_json(delta: Delta) -> bytes:
    """The same as further fields of an object that is being written."""
    return b"" if delta.collapse is None else b"," + msgspec.json.encode(collapse_object(delta))[1:-1]
