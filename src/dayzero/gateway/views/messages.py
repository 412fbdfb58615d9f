"""POST /v1/messages and /v1/messages/count_tokens, as Anthropic has them."""

from dataclasses import replace
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.errors import RequestError
from dayzero.gateway import exchange
from dayzero.gateway.answer import send_json
from dayzero.gateway.config import GatewayConfig, Limits
from dayzero.gateway.fields import GenerationFields, terms_of
from dayzero.gateway.guard import Mode
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.service import TextService
from dayzero.gateway.structured import Structured, json_of
from dayzero.gateway.tools import tool_use
from dayzero.gateway.turn import Turn, Turns
from dayzero.gateway.views.message_blocks import BLOCK_RULES, messages_of
from dayzero.gateway.views.message_events import MessagesFormat, Thinking

_THINKING = ("enabled", "adaptive", "disabled")


class JsonFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`output_config.format`."""

    type: str | None = None
    schema: dict[str, Any] | None = None


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`output_config`."""

    effort: str | None = None
    format: JsonFormat | None = None


class ThinkingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`thinking`."""

    type: str | None = None
    display: str | None = None


class MessagesTool(msgspec.Struct, frozen=True, kw_only=True):
    """`tools[]`. `cache_control` asks for what is done anyway."""

    cache_control: Any = None
    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class MessagesToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice`."""

    type: str | None = None
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class CountTokensRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompt is made of. None: not given.

    cache_control   asks for what is done anyway: every prefix is kept
    """

    messages: list[dict[str, Any]]
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: MessagesToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    cache_control: Any = None


class MessagesRequest(CountTokensRequest, frozen=True, kw_only=True):
    """And how it is answered.

    seed, collapse_guard   as in chat completions
    """

    max_tokens: int
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool | None = None
    seed: int | None = None
    collapse_guard: Mode | None = None


RULES = BLOCK_RULES | FieldRules(
    neutral={"compaction": (), "container": (), "mcp_servers": ([],), "thread": ()},
    instead={
        "compaction": "ask for a summary in a message",
        "mcp_servers": "send tools, and run them yourself",
        "thread": "send all messages",
    },
    harmless=frozenset(
        {
            "betas",
            "billing_policy",
            "diagnostics",
            "fallback_credit_token",
            "fallbacks",
            "inference_geo",
            "metadata",
            "service_tier",
            "speed",
            "tools[].allowed_callers",
            "tools[].defer_loading",
            "tools[].eager_input_streaming",
            "tools[].input_examples",
            "user_profile_id",
            "workspace_id",
        }
    ),
)
# What says how a prompt is answered may stand where it is only counted.
_OF_ANSWERS = frozenset(MessagesRequest.__struct_fields__) - frozenset(CountTokensRequest.__struct_fields__)
COUNT_RULES = replace(RULES, harmless=RULES.harmless | _OF_ANSWERS)


class MessagesView:
    """The route."""

    def __init__(self, service: TextService, turns: Turns) -> None:
        self._service = service
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, MessagesRequest, RULES)
        this = exchange.of(scope)
        turn = turn_of(request, service.config)
        with endpoint.admission.admit(1):
            prepared = await self._turns.prepare(turn, endpoint)
            form = MessagesFormat(
                model=endpoint.model,
                request_id=this.id,
                prompt_tokens=len(prepared.prompt.tokens),
                is_clamped=prepared.prompt.params.max_tokens < request.max_tokens,
                thinking=thinking_of(request.thinking),
            )
            await self._turns.answer(prepared, form, (scope, receive, send))


class CountTokensView:
    """How many tokens the prompt of the same request has."""

    def __init__(self, service: TextService, turns: Turns) -> None:
        self._service = service
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, CountTokensRequest, COUNT_RULES)
        turn = turn_of(request, service.config)
        with endpoint.admission.admit(1):
            tokens = await self._turns.tokens(turn, endpoint)
        await send_json(send, msgspec.json.encode({"input_tokens": len(tokens)}))


def turn_of(request: CountTokensRequest, config: GatewayConfig) -> Turn:
    """Raises RequestError, naming the field."""
    fields = _fields(request)
    if fields.max_tokens is not None and fields.max_tokens < 1:
        raise RequestError(f"max_tokens out of range: {fields.max_tokens} (allowed: 1 and more)", param="max_tokens")
    messages, continues = messages_of(request.system, request.messages)
    functions = [_function(tool, f"tools[{number}]") for number, tool in enumerate(request.tools or ())]
    choice = request.tool_choice or MessagesToolChoice(type="auto")
    return Turn(
        fields=fields,
        terms=terms_of(fields, config.limits, guard=config.collapse_guard),
        messages=messages,
        tools=functions or None,
        use=tool_use(functions, _choice(choice), choice.disable_parallel_tool_use is not True, config.limits),
        structured=_structured(request, config.limits),
        most_tokens=fields.max_tokens,
        continue_final_message=continues,
        variables=_variables(request),
    )


def thinking_of(thinking: ThinkingConfig | None) -> Thinking:
    """How much of what the model thinks is told."""
    if thinking is None:
        return "shown"
    return "left out" if thinking.type == "disabled" else "omitted" if thinking.display == "omitted" else "shown"


def _fields(request: CountTokensRequest) -> GenerationFields:
    if not isinstance(request, MessagesRequest):
        return GenerationFields()
    return GenerationFields(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=request.stop_sequences,
        max_tokens=request.max_tokens,
        stream=request.stream,
        seed=request.seed,
        collapse_guard=request.collapse_guard,
    )


def _structured(request: CountTokensRequest, limits: Limits) -> Structured | None:
    """What the answer shall be; None: it is free."""
    given = {
        "output_config.format": None if request.output_config is None else request.output_config.format,
        "output_format": request.output_format,
    }
    found = {param: value for param, value in given.items() if value is not None}
    if len(found) > 1:
        raise RequestError("output_format beside output_config.format", param="output_format", hint="send one of them")
    for param, value in found.items():
        hint = 'send {"type": "json_schema", "schema": {...}}'
        if value.type != "json_schema":
            raise RequestError("unknown type", param=f"{param}.type", hint=hint)
        if value.schema is None:
            raise RequestError("no schema", param=f"{param}.schema", hint=hint)
        return json_of(value.schema, limits, f"{param}.schema")
    return None


def _function(tool: MessagesTool, where: str) -> dict[str, Any]:
    """A tool as chat completions describe it."""
    if tool.type not in (None, "custom"):
        raise RequestError(
            "not a tool with a schema of its own",
            param=f"{where}.type",
            hint="the server knows no tools itself: send name, description and input_schema",
        )
    if tool.input_schema is None:
        raise RequestError("no schema", param=f"{where}.input_schema", hint='send {"type": "object", ...}')
    function = {
        "name": tool.name,
        "description": tool.description,
        "strict": tool.strict,
        "parameters": tool.input_schema,
    }
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _choice(choice: MessagesToolChoice) -> str | dict[str, Any]:
    match choice.type:
        case "auto":
            return "auto"
        case "none":
            return "none"
        case "any":
            return "required"
        case "tool" if choice.name is not None:
            return {"type": "function", "function": {"name": choice.name}}
        case "tool":
            raise RequestError("no name", param="tool_choice.name", hint="name one of tools")
        case _:
            raise RequestError("unknown type", param="tool_choice.type", hint="known: auto, any, tool, none")


def _variables(request: CountTokensRequest) -> dict[str, Any]:
    """Templates have one of two names for whether to think; a variable that one does not know has no effect."""
    effort = None if request.output_config is None else request.output_config.effort
    variables: dict[str, Any] = {"reasoning_effort": effort}
    if request.thinking is not None:
        kind = request.thinking.type
        if kind not in _THINKING:
            raise RequestError("unknown type", param="thinking.type", hint=f"known: {', '.join(_THINKING)}")
        variables |= dict.fromkeys(("enable_thinking", "thinking"), kind != "disabled")
    return variables
