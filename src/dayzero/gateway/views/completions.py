"""POST /v1/completions: the older API, which evaluation tools use for log-likelihoods.

A prompt's markup, such as <|im_start|>, becomes the special token: the caller owns the whole prompt, so there is no
boundary inside it to protect. `parse_special: false` takes it literally.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.core.sampling import MAX_LOGPROBS, SEED_RANGE, check_prompt
from dayzero.errors import RequestError
from dayzero.gateway.constrain import bound_by
from dayzero.gateway.endpoint import Endpoint
from dayzero.gateway.fields import (
    HARMLESS,
    HARMLESS_EXTRAS,
    INSTEAD,
    NEUTRAL,
    GenerationFields,
    check_text_size,
    resolve_max_tokens,
    sampling_params,
    terms_of,
)
from dayzero.gateway.generate import Prompt, Usage
from dayzero.gateway.json_changes import JsonChanges, changes_of
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.prompts import RawPrompt, prompts_of
from dayzero.gateway.service import TextService
from dayzero.gateway.stream import Delta, Echo, Scored, StreamRules
from dayzero.gateway.structured import FORMAT_SHAPES, json_output, structured_of
from dayzero.gateway.views.format import DONE, collapse_object, failure_events, finite, usage_object
from dayzero.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 16  # OpenAI's


class CompletionRequest(GenerationFields, frozen=True, kw_only=True):
    """The fields that have an effect.

    prompt              a string, token ids, or a list of either
    logprobs            how many alternatives to report beside each chosen token
    echo                the prompt comes before its output, its log-probs included; then max_tokens may be 0
    add_special_tokens  start a text prompt with the model's beginning-of-sequence token, if it has one
    parse_special       markup in a text prompt becomes the special token
    """

    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    add_special_tokens: bool | None = None
    parse_special: bool | None = None


RULES = FieldRules(
    neutral={**NEUTRAL, "best_of": (1,), "prompt_embeds": (), "suffix": ("",)},
    instead={**INSTEAD, "best_of": "send n", "prompt_embeds": "send prompt", "suffix": "put it into the prompt"},
    harmless=HARMLESS | HARMLESS_EXTRAS,
    shapes=FORMAT_SHAPES,
)


class CompletionView:
    """The route."""

    def __init__(self, service: TextService) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, CompletionRequest, RULES)
        terms = terms_of(request, service.config.limits)
        check_request(request)
        structured = structured_of(request, service.config.limits)
        changes = changes_of(json_output(request, structured), is_asked=terms.partial_json)
        given = prompts_of(request.prompt, most=service.config.limits.prompts, param="prompt")
        with endpoint.admission.admit(terms.num_choices * len(given)):
            prompts = [
                await self._prompt(
                    request, endpoint, prompt, (terms.seed + number) % SEED_RANGE
                )  # equal prompts differ
                for number, prompt in enumerate(given)
            ]
            rules = StreamRules(
                stops=terms.stops,
                show_stop=bool(request.include_stop_str_in_output),
                skip_special=request.skip_special_tokens is not False,
                scored=request.logprobs is not None,
                score_end=True,
                bound_by=bound_by(structured),
            )
            form = CompletionFormat(
                service,
                prompts,
                model=endpoint.model,
                num_choices=terms.num_choices,
                request=request,
                include_usage=terms.include_usage,
                changes=changes,
            )
            constraint = await service.constrainer.constraint(structured, [prompt.params for prompt in prompts])
            connection = (scope, receive, send)
            await service.answer(
                prompts, request, terms, rules, form, connection, endpoint=endpoint, constraint=constraint
            )

    async def _prompt(self, request: CompletionRequest, endpoint: Endpoint, given: RawPrompt, seed: int) -> Prompt:
        service = self._service
        tokens = await self._tokens(request, given, endpoint.max_context)
        vocab_size = service.replica.spec.vocab_size
        check_prompt(tokens, vocab_size)
        max_tokens = resolve_max_tokens(
            request.max_tokens,
            DEFAULT_MAX_TOKENS,
            prompt_tokens=len(tokens),
            context=endpoint.max_context,
            param="prompt",
        )
        prompt_logprobs = request.logprobs if request.echo else None
        if request.echo and max_tokens == 0 and prompt_logprobs is None:
            prompt_logprobs = 0  # something has to be computed, so that even this is an ordinary request
        params = sampling_params(
            request,
            service.defaults,
            seed=seed,
            max_tokens=max_tokens,
            vocab_size=vocab_size,
            logprobs=request.logprobs,
            prompt_logprobs=prompt_logprobs,
        )
        return Prompt(tokens, params, self._echo(request, given, tokens))

    async def _tokens(self, request: CompletionRequest, given: RawPrompt, context: int) -> list[int]:
        if not isinstance(given, str):
            return given
        service = self._service
        check_text_size(len(given), context=context, limits=service.config.limits, param="prompt")
        special = request.parse_special is not False
        encode = service.tokenizer.encode if request.add_special_tokens is False else service.tokenizer.encode_prompt
        return await service.tokenize(len(given), lambda: encode(given, special=special))

    def _echo(self, request: CompletionRequest, given: RawPrompt, tokens: list[int]) -> Echo | None:
        if not request.echo:
            return None
        if isinstance(given, str):
            return Echo(given, tokens, shows_special=True)
        shows_special = request.skip_special_tokens is False
        text = self._service.tokenizer.decode(tokens, skip_special=not shows_special)
        return Echo(text, tokens, shows_special)


def check_request(request: CompletionRequest) -> None:
    """Check what completions add to the common fields."""
    extras = request.stream_options
    if request.echo and extras is not None and extras.partial_json:
        raise RequestError(
            "partial_json with echo", param="stream_options.partial_json", hint="the text is no JSON behind its prompt"
        )
    if request.logprobs is not None and not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise RequestError(
            f"logprobs out of range: {request.logprobs} (allowed: 0 to {MAX_LOGPROBS})", param="logprobs"
        )


class CompletionFormat:
    """Completions on the wire."""

    def __init__(
        self,
        service: TextService,
        prompts: Sequence[Prompt],
        *,
        model: str,
        num_choices: int,
        request: CompletionRequest,
        include_usage: bool,
        changes: JsonChanges | None,
    ) -> None:
        self._tokenizer = service.tokenizer
        self._prompts = prompts
        self._num_choices = num_choices
        self._return_token_ids = bool(request.return_token_ids)
        self._is_scored = request.logprobs is not None
        self._changes = changes
        self._begun: set[int] = set()  # choices of which a chunk is out
        self._include_usage = include_usage
        self._encode = msgspec.json.Encoder().encode
        self._envelope = {
            "id": f"cmpl-{secrets.token_hex(16)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": service.replica.spec.policy_version,
        }
        self._head = b"data: " + self._encode(self._envelope)[:-1] + b',"choices":['
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    def opening(self) -> bytes:
        return b""

    def chunk(self, delta: Delta) -> bytes:
        choice = self._choice(delta.index, [delta])
        if delta.index in self._begun:
            choice.pop("prompt_token_ids", None)
        self._begun.add(delta.index)
        if not delta.scored:
            choice["logprobs"] = None
        if self._changes is not None and (changes := self._changes.of_text(delta.index, delta.text, delta.finish)):
            choice["partial_json"] = msgspec.Raw(changes)
        return self._head + self._encode(choice) + self._tail

    def closing(self, usage: Usage) -> bytes:
        if not self._include_usage:
            return DONE
        return self._head + b'],"usage":' + self._encode(usage_object(usage)) + b"}\n\n" + DONE

    def failure(self, error: BaseException) -> bytes:
        return failure_events(error)

    def whole(self, choices: Sequence[Sequence[Delta]], usage: Usage) -> bytes:
        body: dict[str, Any] = {
            **self._envelope,
            "choices": [self._choice(index, deltas) for index, deltas in enumerate(choices)],
            "usage": usage_object(usage),
        }
        return self._encode(body)

    def _choice(self, index: int, deltas: Sequence[Delta]) -> dict[str, Any]:
        scored = [entry for delta in deltas for entry in delta.scored]
        choice: dict[str, Any] = {
            "index": index,
            "text": "".join(delta.text for delta in deltas),
            "logprobs": legacy_logprobs(self._tokenizer, scored) if self._is_scored else None,
            "finish_reason": deltas[-1].finish,
        }
        choice |= collapse_object(deltas[-1])
        if self._return_token_ids:
            choice["token_ids"] = [token for delta in deltas for token in delta.token_ids]
            choice["prompt_token_ids"] = self._prompts[index // self._num_choices].tokens
        return choice


def legacy_logprobs(tokenizer: Tokenizer, scored: Sequence[Scored]) -> dict[str, Any]:
    """Four parallel lists. The first token of a prompt has no log-prob.

    The alternatives of a position include the chosen token, so there may be one more than asked for.
    """
    tops: list[dict[str, float] | None] = []
    for entry in scored:
        logprob = entry.logprob
        if logprob is None:
            tops.append(None)
            continue
        top = {token_name(tokenizer, token): finite(value) for token, value in logprob.top}
        tops.append({**top, token_name(tokenizer, entry.token): finite(logprob.logprob)})
    return {
        "tokens": [token_name(tokenizer, entry.token) for entry in scored],
        "token_logprobs": [None if entry.logprob is None else finite(entry.logprob.logprob) for entry in scored],
        "top_logprobs": tops,
        "text_offset": [entry.offset for entry in scored],
    }


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as a key: its text, or `bytes:\\xNN...` if it is only a part of a character, so that no two collide."""
    raw = tokenizer.token_bytes(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
