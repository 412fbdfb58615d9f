"""Sampling parameters: one frozen value from the API to the sampler, which is also the wire format."""

import math
from collections.abc import Sequence

import msgspec

from dayzero.errors import RequestError

MAX_LOGPROBS = 20
SEED_RANGE = 2**64


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one request turns logits into tokens. Defaults change nothing about the model's distribution.

    The tokens that may be drawn are, in this order: penalties and `logit_bias` on the logits, division by
    `temperature`, then `top_k`, `top_p` and `min_p`, each on the distribution that the former left. A token
    survives top-k if fewer than k tokens are strictly likelier, and top-p if the tokens strictly likelier than it
    hold less than p together: ties are kept or dropped together, so the order of a sort never matters.
    `temperature` 0 is greedy: the likeliest token, the lowest id among equals.
    """

    max_tokens: int
    seed: int  # unsigned 64 bit; the gateway draws one if the client gave none
    min_tokens: int = 0  # end-of-sequence and stop tokens are masked until then
    temperature: float = 1.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0  # on output tokens
    frequency_penalty: float = 0.0  # on output tokens
    repetition_penalty: float = 1.0  # on prompt and output tokens; 1: off
    logit_bias: dict[int, float] = {}
    stop_token_ids: tuple[int, ...] = ()  # beside the model's own end-of-sequence ids
    ignore_eos: bool = False
    banned_tokens: tuple[int, ...] = ()  # never drawn before `banned_until`, unless nothing else may be
    banned_until: int = 0  # output tokens
    logprobs: int | None = None  # how many alternatives to report beside the chosen token; None: report nothing
    prompt_logprobs: int | None = None  # the same for the prompt's tokens

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0


def check(params: SamplingParams, vocab_size: int) -> None:
    """Raise RequestError, naming the field, for a value outside its bounds.

    vocab_size is the width of the model's output, not the tokenizer's length (CVE-2026-93840).
    """
    _within("temperature", params.temperature, 0.0, 2.0)
    _within("top_p", params.top_p, 0.0, 1.0)
    if params.top_p == 0.0:
        raise RequestError("top_p out of range: 0", param="top_p", hint="use 0 < top_p <= 1")
    _within("min_p", params.min_p, 0.0, 1.0)
    _within("presence_penalty", params.presence_penalty, -2.0, 2.0)
    _within("frequency_penalty", params.frequency_penalty, -2.0, 2.0)
    _within("repetition_penalty", params.repetition_penalty, 0.01, 100.0)
    _within("top_k", params.top_k, 0, 2**31 - 1)
    _within("seed", params.seed, 0, SEED_RANGE - 1)
    _within("max_tokens", params.max_tokens, 0 if params.prompt_logprobs is not None else 1, 2**31 - 1)
    _within("min_tokens", params.min_tokens, 0, params.max_tokens)
    if params.logprobs is not None:
        _within("logprobs", params.logprobs, 0, MAX_LOGPROBS)
    if params.prompt_logprobs is not None:
        _within("prompt_logprobs", params.prompt_logprobs, 0, MAX_LOGPROBS)
    for token, bias in params.logit_bias.items():
        _within("logit_bias", token, 0, vocab_size - 1)
        _within("logit_bias", bias, -100.0, 100.0)
    for token in params.stop_token_ids:
        _within("stop_token_ids", token, 0, vocab_size - 1)
    _within("banned_until", params.banned_until, 0, 2**31 - 1)
    for token in params.banned_tokens:
        _within("banned_tokens", token, 0, vocab_size - 1)


def check_prompt(tokens: Sequence[int], vocab_size: int, *, param: str = "prompt") -> None:
    """Raise RequestError for a prompt without tokens, or with one that the model does not have."""
    if not tokens:
        raise RequestError(f"{param} is empty", param=param)
    if min(tokens) < 0 or max(tokens) >= vocab_size:
        raise RequestError(f"{param} has a token id outside the vocabulary (0 to {vocab_size - 1})", param=param)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        raise RequestError(f"{name} out of range: {value} (allowed: {_plain(low)} to {_plain(high)})", param=name)


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
