"""What an engine says about a request. Pure values; also the wire format."""

import enum

import msgspec

RequestId = int  # drawn by the gateway; never derived from anything a client sends


class FinishReason(enum.StrEnum):
    """Why a request ended. Every request gets exactly one."""

    STOP = "stop"  # the last token is an end-of-sequence or stop token: it counts as output but is not text
    LENGTH = "length"  # max_tokens, or the end of the context
    ABORT = "abort"  # the gateway asked for it: disconnect, stop string, deadline
    TIMEOUT = "timeout"  # the request's deadline passed
    GRAMMAR = "grammar"  # its grammar cannot be followed, or costs too much: `TokenEvent.error` says which
    ERROR = "error"  # our fault; `TokenEvent.error` says what, without internals


class Logprob(msgspec.Struct, frozen=True, array_like=True):
    """The raw model log-probability (before any sampling parameter) of one token and its likeliest alternatives.

    `top` is ordered by falling log-probability, ties by rising id, and holds as many as were asked for.
    `rank` is 1 + the number of tokens strictly likelier.
    """

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


class TokenEvent(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """Tokens that a request gained in one step.

    finish            set exactly once per request: its terminal event
    logprobs          one per token, if the request asked
    prompt_logprobs   one per prompt token, None for the first; only in the event with the first token, if asked
    cached_tokens     prompt tokens whose KV was already there; only in the event with the first token
    embedding         little-endian float32, of unit length; only in the event that ends a request with `pooling`
    """

    request_id: RequestId
    tokens: list[int] = []
    finish: FinishReason | None = None
    logprobs: list[Logprob] | None = None
    prompt_logprobs: list[Logprob | None] | None = None
    cached_tokens: int | None = None
    error: str | None = None
    embedding: bytes | None = None
