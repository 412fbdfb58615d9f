"""POST /v1/chat/completions."""

import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.core.sampling import MAX_LOGPROBS
from dayzero.errors import RequestError
from dayzero.gateway.chat_encoder import MESSAGE_RULES
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.fields import HARMLESS, HARMLESS_EXTRAS, INSTEAD, NEUTRAL, GenerationFields, Terms, terms_of
from dayzero.gateway.generate import Usage
from dayzero.gateway.json_changes import JsonChanges, changes_of
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.service import TextService
from dayzero.gateway.stream import Delta, Scored
from dayzero.gateway.structured import FORMAT_SHAPES, json_output, structured_of
from dayzero.gateway.tools import TOOL_SHAPES, tool_use
from dayzero.gateway.turn import Turn, Turns
from dayzero.gateway.views.format import (
    DONE,
    collapse_json,
    collapse_object,
    failure_events,
    finite,
    token_bytes_and_text,
    usage_object,
)
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text
from dayzero.text.tokenizer import Tokenizer


class ChatRequest(GenerationFields, frozen=True, kw_only=True):
    """The fields that have an effect.

    max_completion_tokens   wins over max_tokens, its older name
    logprobs                report the chosen tokens; `top_logprobs` alternatives with each
    chat_template_kwargs    values for the template's own variables, of a short list
    reasoning_effort        one of these variables, by its own name
    include_reasoning       false: think, but do not show it
    """

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    include_reasoning: bool | None = None


RULES = MESSAGE_RULES | FieldRules(
    neutral={
        **NEUTRAL,
        "add_special_tokens": (False,),
        "audio": (),
        "chat_template": (),
        "documents": ([],),
        "echo": (False,),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "modalities": (["text"], []),
        "parse_tool_calls": (True,),
        "reasoning_format": ("auto", "deepseek"),
        "separate_reasoning": (True,),
        "web_search_options": (),
    },
    instead={
        **INSTEAD,
        "add_special_tokens": "leave it out: the chat template says what a prompt begins with",
        "audio": "leave it out: this model writes text",
        "chat_template": "serve the model with --chat-template",
        "documents": "send chat_template_kwargs.documents",
        "echo": "send the prompt to /v1/completions",
        "function_call": "send tool_choice",
        "functions": "send tools",
        "modalities": "leave it out: this model writes text",
        "parse_tool_calls": "send no tools",
        "reasoning_format": "leave it out: reasoning is told apart",
        "separate_reasoning": "leave it out: reasoning is told apart",
        "web_search_options": "send a tool of your own that searches",
    },
    harmless=HARMLESS
    | HARMLESS_EXTRAS
    | {"media_io_kwargs", "mm_processor_kwargs", "tools[].defer_loading", "tools[].function.defer_loading"},
    shapes={**FORMAT_SHAPES, **TOOL_SHAPES},
)


class ChatView:
    """The route."""

    def __init__(self, service: TextService, turns: Turns) -> None:
        self._service = service
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, ChatRequest, RULES)
        turn = turn_of(request, service.config)
        calls = bool(turn.use.tools) and turn.use.mode != "none"
        changes = changes_of(json_output(request, turn.structured, calls=calls), is_asked=turn.terms.partial_json)
        with endpoint.admission.admit(turn.terms.num_choices):
            prepared = await self._turns.prepare(turn, endpoint)
            form = ChatFormat(
                service,
                turn.terms,
                model=endpoint.model,
                is_scored=turn.logprobs is not None,
                shows_reasoning=request.include_reasoning is not False,
                prompt_token_ids=prepared.prompt.tokens if request.return_token_ids else None,
                changes=changes,
                call_finish="stop" if turn.use.mode == "named" else "tool_calls",
            )
            await self._turns.answer(prepared, form, (scope, receive, send))


def turn_of(request: ChatRequest, config: GatewayConfig) -> Turn:
    """Raises RequestError, naming the field."""
    limits = config.limits
    return Turn(
        fields=request,
        terms=terms_of(request, limits, guard=config.collapse_guard),
        messages=request.messages,
        tools=request.tools,
        use=tool_use(request.tools, request.tool_choice, request.parallel_tool_calls, limits),
        structured=structured_of(request, limits),
        max_tokens=request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens,
        logprobs=num_logprobs_of(request),
        add_generation_prompt=request.add_generation_prompt,
        continue_final_message=bool(request.continue_final_message),
        variables=variables_of(request),
    )


def variables_of(request: ChatRequest) -> dict[str, Any]:
    """What the template may ask for beside the messages."""
    variables = dict(request.chat_template_kwargs or {})
    if request.reasoning_effort is not None:
        variables["reasoning_effort"] = request.reasoning_effort
    return variables


def num_logprobs_of(request: ChatRequest) -> int | None:
    """How many alternatives the log-probs want; None: no log-probs."""
    if request.top_logprobs is not None:
        if not request.logprobs:
            raise RequestError("top_logprobs without logprobs", param="top_logprobs", hint="set logprobs to true")
        if not 0 <= request.top_logprobs <= MAX_LOGPROBS:
            raise RequestError(
                f"top_logprobs out of range: {request.top_logprobs} (allowed: 0 to {MAX_LOGPROBS})",
                param="top_logprobs",
            )
    return (request.top_logprobs or 0) if request.logprobs else None


class ChatFormat:
    """Chat completions on the wire. The parts of a chunk that never change are encoded once.

    shows_reasoning   otherwise what the model thought is left out
    call_finish       how an answer with a complete call has ended: OpenAI's "stop" for a function by its name
    """

    def __init__(
        self,
        service: TextService,
        terms: Terms,
        *,
        model: str,
        is_scored: bool,
        shows_reasoning: bool = True,
        prompt_token_ids: list[int] | None = None,
        changes: JsonChanges | None = None,
        call_finish: str = "tool_calls",
    ) -> None:
        self._tokenizer = service.tokenizer
        self._include_usage = terms.include_usage
        self._is_scored = is_scored
        self._shows_reasoning = shows_reasoning
        self._call_finish = call_finish
        self._prompt_token_ids = prompt_token_ids
        self._changes = changes
        self._called: set[int] = set()  # choices with a complete call
        self._encode = msgspec.json.Encoder().encode
        self._envelope = {
            "id": f"chatcmpl-{secrets.token_hex(16)}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": service.replica.spec.policy_version,
        }
        head = self._encode({**self._envelope, "object": "chat.completion.chunk"})[:-1]
        self._heads = [b'data: %s,"choices":[{"index":%d,"delta":' % (head, i) for i in range(terms.num_choices)]
        self._last_head = b"data: " + head
        self._tail = b'],"usage":null}\n\n' if terms.include_usage else b"]}\n\n"

    def opening(self) -> bytes:
        role = b'{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
        first_tail = self._tail
        if self._prompt_token_ids is not None:
            first_tail = b'],"prompt_token_ids":' + self._encode(self._prompt_token_ids) + self._tail[1:]
        first, *others = self._heads
        return first + role + first_tail + b"".join(head + role + self._tail for head in others)

    def chunk(self, delta: Delta) -> bytes:
        """An event for each part; the last of them carries the log-probs and token ids."""
        said = [event for part in delta.parts if (event := self._event(delta.index, part)) is not None]
        if not said and (delta.scored or self._prompt_token_ids is not None):
            said = [(b'{"content":""}', b"")]
        self._note_calls(delta)
        head = self._heads[delta.index]
        events = [b'%s%s,"logprobs":null,"finish_reason":null%s}%s' % (head, *event, self._tail) for event in said[:-1]]
        if said:
            logprobs = self._encode(self._logprobs(delta.scored)) if delta.scored else b"null"
            token_ids = b""
            if self._prompt_token_ids is not None:
                token_ids = b',"token_ids":' + self._encode(delta.token_ids)
            body, extra = said[-1]
            rest = (body, b',"logprobs":', logprobs, b',"finish_reason":null', token_ids, extra, b"}", self._tail)
            events.append(head + b"".join(rest))
        if delta.finish is not None:
            finish = self._finish_reason(delta.index, delta.finish).encode()
            extra = b"" if self._changes is None else _extra(self._changes.of_text(delta.index, "", delta.finish))
            extra += collapse_json(delta)
            events.append(b'%s{},"logprobs":null,"finish_reason":"%s"%s}%s' % (head, finish, extra, self._tail))
        return b"".join(events)

    def closing(self, usage: Usage) -> bytes:
        if not self._include_usage:
            return DONE
        return self._last_head + b',"choices":[],"usage":' + self._encode(usage_object(usage)) + b"}\n\n" + DONE

    def failure(self, error: BaseException) -> bytes:
        return failure_events(error)

    def whole(self, choices: Sequence[Sequence[Delta]], usage: Usage) -> bytes:
        body: dict[str, Any] = {
            **self._envelope,
            "object": "chat.completion",
            "choices": [self._choice(index, deltas) for index, deltas in enumerate(choices)],
            "usage": usage_object(usage),
        }
        if self._prompt_token_ids is not None:
            body["prompt_token_ids"] = self._prompt_token_ids
        return self._encode(body)

    def _choice(self, index: int, deltas: Sequence[Delta]) -> dict[str, Any]:
        scored = [entry for delta in deltas for entry in delta.scored]
        for delta in deltas:
            self._note_calls(delta)
        finish = deltas[-1].finish
        choice: dict[str, Any] = {
            "index": index,
            "message": self._message([part for delta in deltas for part in delta.parts]),
            "logprobs": self._logprobs(scored) if self._is_scored else None,
            "finish_reason": None if finish is None else self._finish_reason(index, finish),
        }
        choice |= collapse_object(deltas[-1])
        if self._prompt_token_ids is not None:
            choice["token_ids"] = [token for delta in deltas for token in delta.token_ids]
        return choice

    def _message(self, parts: Sequence[Part]) -> dict[str, Any]:
        text = "".join(part.text for part in parts if isinstance(part, Text))
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        calls: list[dict[str, Any]] = []
        for part in parts:
            if isinstance(part, CallStarted):
                calls.append(_call(part.name))
            elif isinstance(part, CallArguments):
                calls[part.index]["function"]["arguments"] += part.text
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
        if reasoning and self._shows_reasoning:
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        if calls:
            message["tool_calls"] = calls
        return message

    def _event(self, index: int, part: Part) -> tuple[bytes, bytes] | None:
        """The delta of a chunk, and the choice's own fields beside it."""
        body = self._part(part)
        extra = b"" if self._changes is None else _extra(self._changes.of_part(index, part))
        return None if body is None and not extra else (body or b"{}", extra)

    def _part(self, part: Part) -> bytes | None:
        """The delta of a chunk."""
        match part:
            case Text(text):
                return b'{"content":%s}' % self._encode(text)
            case Reasoning(text):
                shown = self._encode(text)
                return b'{"reasoning":%s,"reasoning_content":%s}' % (shown, shown) if self._shows_reasoning else None
            case CallStarted(index, name):
                return self._encode({"tool_calls": [{"index": index, **_call(name)}]})
            case CallArguments(index, text):
                return b'{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}' % (index, self._encode(text))
            case CallEnded():
                return None

    def _note_calls(self, delta: Delta) -> None:
        if any(isinstance(part, CallEnded) and part.is_complete for part in delta.parts):
            self._called.add(delta.index)

    def _finish_reason(self, index: int, finish: str) -> str:
        """A complete call is a reason of its own, unless something else cut the output."""
        return self._call_finish if finish == "stop" and index in self._called else finish

    def _logprobs(self, scored: Sequence[Scored]) -> dict[str, Any]:
        return {"content": [chat_logprob(self._tokenizer, entry) for entry in scored], "refusal": None}


def chat_logprob(tokenizer: Tokenizer, entry: Scored) -> dict[str, Any]:
    """One token as chat reports it: `token` may have U+FFFD in it, `bytes` are the token's own."""
    assert entry.logprob is not None
    return {
        **token_bytes_and_text(tokenizer, entry.token),
        "logprob": finite(entry.logprob.logprob),
        "top_logprobs": [
            {**token_bytes_and_text(tokenizer, token), "logprob": finite(logprob)}
            for token, logprob in entry.logprob.top
        ],
    }


def _extra(changes: bytes) -> bytes:
    return b',"partial_json":' + changes if changes else b""


def _call(name: str) -> dict[str, Any]:
    """A call without arguments yet; its id is drawn."""
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": {"name": name, "arguments": ""}}
