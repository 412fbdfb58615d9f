"""The fields that every text API shares, and what they come to: sampling parameters and stops.

A value is the request's, else the checkpoint's generation_config.json, else OpenAI's default.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.core.sampling import SEED_RANGE, SamplingParams, check
from dayzero.errors import ContextTooLong, RequestError
from dayzero.gateway.config import Limits
from dayzero.gateway.guard import Mode

_SEED_LOW = -(2**63)

# Fields of chat and completions that have no place in the struct; what the kinds mean: see `parse.FieldRules`.
NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "allowed_token_ids": (),
    "bad_words": ([],),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "ebnf": (),
    "grammar": ("",),
    "guided_whitespace_pattern": (),
    "json_schema": (),
    "logits_processors": ([],),
    "logprob_token_ids": (),
    "lora": ([],),
    "lora_path": (),
    "mirostat": (0,),
    "n_predict": (-1,),
    "n_probs": (0,),
    "prompt_logprobs": (),
    "regex": (),
    "repeat_penalty": (1,),
    "repetition_detection": (),
    "return_prompt_text": (False,),
    "return_tokens_as_token_ids": (False,),
    "samplers": ([],),
    "structural_tag": (),
    "tfs_z": (1,),
    "thinking_token_budget": (-1,),
    "top_n_sigma": (-1,),
    "truncate_prompt_tokens": (),
    "typical_p": (1,),
    "use_beam_search": (False,),
    "watermarking": (False,),
    "xtc_probability": (0,),
}
INSTEAD: Mapping[str, str] = {
    "allowed_token_ids": "send logit_bias, or structured_outputs",
    "bad_words": "send logit_bias",
    "ebnf": "send structured_outputs.grammar",
    "grammar": "send structured_outputs.grammar",
    "guided_whitespace_pattern": "leave it out: white space is bounded",
    "json_schema": "send response_format, or structured_outputs.json",
    "logprob_token_ids": "send logprobs",
    "lora": "serve the model with it merged",
    "lora_path": "serve the model with it merged",
    "n_predict": "send max_tokens",
    "n_probs": "send logprobs",
    "prompt_logprobs": "send echo and logprobs to /v1/completions",
    "regex": "send structured_outputs.regex",
    "repeat_penalty": "send repetition_penalty",
    "repetition_detection": "send collapse_guard",
    "return_prompt_text": "send return_token_ids, and those to /detokenize",
    "return_tokens_as_token_ids": "send return_token_ids",
    "structural_tag": "send tools, or structured_outputs",
    "thinking_token_budget": "send reasoning_effort, or chat_template_kwargs.enable_thinking",
    "truncate_prompt_tokens": "shorten the prompt",
    "use_beam_search": "send n",
}
HARMLESS = frozenset(
    {
        "metadata",
        "moderation",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
    }
)
HARMLESS_EXTRAS = frozenset(  # of chat and completions alone; most are vLLM's and llama.cpp's
    {
        "cache_prompt",
        "ec_transfer_params",
        "guided_decoding_backend",
        "id_slot",
        "kv_transfer_params",
        "length_penalty",
        "request_id",
        "return_mm_kwargs",
        "return_token_offsets",
        "routed_experts_prompt_start",
        "session_id",
        "spaces_between_special_tokens",
        "stream_interval",
        "stream_options.continuous_usage_stats",
        "stream_options.include_obfuscation",
        "timings_per_token",
        "truncation_side",
        "vllm_xargs",
    }
)


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Extras of a stream.

    partial_json   what each chunk changes in the JSON documents of the answer
    """

    include_usage: bool | None = None
    partial_json: bool | None = None


class DrawingFields(msgspec.Struct, frozen=True, kw_only=True):
    """How and when tokens are drawn, for every API that takes all of it. None: not given.

    seed            any 64-bit integer, signed or not; -1 and 2**64 - 1 are the same seed
    priority        lower runs first
    cache_salt      splits the caller's own prefix cache further; it can never reach another caller's
    collapse_guard  what is done about an output that repeats itself
    """

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    priority: int | None = None
    cache_salt: str | None = None
    collapse_guard: Mode | None = None
    stream: bool | None = None


class GenerationFields(DrawingFields, frozen=True, kw_only=True):
    """What chat and completions have in common. None: not given.

    return_token_ids  add the ids of prompt and output to the answer

    The fields of what the text shall be, `response_format` to `guided_grammar`, are read by `gateway.structured`.
    """

    logit_bias: dict[int, float] | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    ignore_eos: bool | None = None
    stream_options: StreamOptions | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What a request asks for beside its text, checked before that is looked at."""

    num_choices: int  # for each prompt
    stops: tuple[str, ...]
    include_usage: bool
    partial_json: bool
    seed: int  # the client's, else drawn: one for the whole request, so that the answer can be had again
    guard: Mode


def terms_of(fields: GenerationFields, limits: Limits, *, guard: Mode = "off") -> Terms:
    """Check what needs no tokenizer. `guard`: for a request that does not say, unless it ignores its ends."""
    num_choices = 1 if fields.n is None else fields.n
    if not 1 <= num_choices <= limits.choices:
        raise RequestError(f"n out of range: {num_choices} (allowed: 1 to {limits.choices})", param="n")
    if fields.stream_options is not None and not fields.stream:
        raise RequestError("stream_options without stream", param="stream_options", hint="set stream to true")
    if len(fields.stop_token_ids or ()) > limits.stop_token_ids:
        raise RequestError(f"too many stop_token_ids (limit: {limits.stop_token_ids})", param="stop_token_ids")
    if len(fields.logit_bias or ()) > limits.logit_biases:
        raise RequestError(f"too many entries in logit_bias (limit: {limits.logit_biases})", param="logit_bias")
    if not -(2**31) <= (fields.priority or 0) < 2**31:
        raise RequestError(f"priority out of range: {fields.priority}", param="priority")
    extras = fields.stream_options or StreamOptions()
    return Terms(
        num_choices=num_choices,
        stops=_stops(fields.stop, limits),
        include_usage=bool(extras.include_usage),
        partial_json=bool(extras.partial_json),
        seed=_seed(fields.seed),
        guard=fields.collapse_guard or ("off" if fields.ignore_eos else guard),
    )


def sampling_params(
    fields: GenerationFields,
    defaults: GenerationDefaults,
    *,
    seed: int,
    max_tokens: int,
    vocab_size: int,
    logprobs: int | None,
    prompt_logprobs: int | None = None,
) -> SamplingParams:
    """The parameters of every choice of a request. RequestError names the field that is out of bounds."""
    params = SamplingParams(
        max_tokens=max_tokens,
        seed=seed,
        min_tokens=fields.min_tokens or 0,
        temperature=_first(fields.temperature, defaults.temperature, 1.0),
        top_p=_first(fields.top_p, defaults.top_p, 1.0),
        top_k=_top_k(fields.top_k, defaults.top_k),
        min_p=_first(fields.min_p, defaults.min_p, 0.0),
        presence_penalty=fields.presence_penalty or 0.0,
        frequency_penalty=fields.frequency_penalty or 0.0,
        repetition_penalty=_first(fields.repetition_penalty, defaults.repetition_penalty, 1.0),
        logit_bias=fields.logit_bias or {},
        stop_token_ids=tuple(fields.stop_token_ids or ()),
        ignore_eos=bool(fields.ignore_eos),
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
    )
    check(params, vocab_size)
    return params


def resolve_max_tokens(asked: int | None, default: int, *, prompt_tokens: int, context: int, param: str) -> int:
    """How many tokens may be generated. ContextTooLong if what was asked does not fit, or no token does."""
    room = context - prompt_tokens
    least = 1 if asked is None else max(asked, 0)
    if least > room:
        raise ContextTooLong(prompt_tokens=prompt_tokens, max_tokens=least, limit=context, param=param)
    return min(default, room) if asked is None else asked


def check_text_size(num_chars: int, *, context: int, limits: Limits, param: str) -> None:
    """Refuse a text that cannot fit the context before it is tokenized."""
    limit = context * limits.chars_per_token
    if num_chars > limit:
        raise RequestError(
            f"context too long: {num_chars} characters of text (limit: {context} tokens, at most {limit} characters)",
            param=param,
            code=ContextTooLong.code,
        )


def _stops(stop: str | list[str] | None, limits: Limits) -> tuple[str, ...]:
    stops = () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
    if len(stops) > limits.stops:
        raise RequestError(f"too many stop strings: {len(stops)} (limit: {limits.stops})", param="stop")
    for text in stops:
        if not 1 <= len(text) <= limits.stop_chars:
            raise RequestError(f"stop string of {len(text)} characters (limit: 1 to {limits.stop_chars})", param="stop")
    return stops


def _seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(63)
    if not _SEED_LOW <= seed < SEED_RANGE:
        raise RequestError(f"seed out of range: {seed} (allowed: 64-bit integers)", param="seed")
    return seed % SEED_RANGE


def _top_k(asked: int | None, default: int | None) -> int:
    """0 is off; so is -1, which other servers use."""
    chosen = (default or 0) if asked is None else asked
    return 0 if chosen == -1 else chosen


def _first(*values: float | None) -> float:
    return [value for value in values if value is not None][0]  # noqa: RUF015 - an interrupt may not meet a generator
