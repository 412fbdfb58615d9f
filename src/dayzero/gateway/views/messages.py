"""POST /v1/messages and /v1/messages/count_tokens, as Anthropic has them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.errors import RequestError
from dayzero.gateway import exchange
from dayzero.gateway.answer import send_json
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.errors import UnsupportedParameter
from dayzero.gateway.fields import GenerationFields, terms_of
from dayzero.gateway.guard import Mode
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.service import TextService
from dayzero.gateway.structured import structured_of
from dayzero.gateway.tools import tool_use
from dayzero.gateway.turn import Turn, Turns
from dayzero.gateway.views.message_blocks import messages_of
from dayzero.gateway.views.message_events import MessagesFormat, Thinking

_THINKING = ("enabled", "adaptive", "disabled")


class CountTokensRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompt is made of. None: not given."""

    messages: list[dict[str, Any]]
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None


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


RULES = FieldRules(
    neutral={"container": (), "mcp_servers": ([],)},
    harmless=frozenset(
        {
            "cache_control",
            "diagnostics",
            "inference_geo",
            "metadata",
            "service_tier",
            "speed",
            "user_profile_id",
            "workspace_id",
        }
    ),
)


class MessagesView:
    """The endpoint."""

    def __init__(self, service: TextService, turns: Turns) -> None:
        self._service = service
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request = await service.read(scope, receive, MessagesRequest, RULES)
        this = exchange.of(scope)
        this.ignored_fields += ignored_of(request, service.config)
        turn = turn_of(request, service.config)
        with service.admission.admit(1):
            prepared = await self._turns.prepare(turn)
            form = MessagesFormat(
                model=service.config.served_model_name,
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
        request = await service.read(scope, receive, CountTokensRequest, RULES)
        exchange.of(scope).ignored_fields += ignored_of(request, service.config)
        turn = turn_of(request, service.config)
        with service.admission.admit(1):
            tokens = await self._turns.tokens(turn)
        await send_json(send, msgspec.json.encode({"input_tokens": len(tokens)}))


def turn_of(request: CountTokensRequest, config: GatewayConfig) -> Turn:
    """Raises RequestError, naming the field."""
    fields = _fields(request)
    if fields.max_tokens is not None and fields.max_tokens < 1:
        raise RequestError(f"max_tokens out of range: {fields.max_tokens} (allowed: 1 and more)", param="max_tokens")
    messages, continues = messages_of(request.system, request.messages)
    functions = [_function(tool, f"tools[{number}]") for number, tool in enumerate(request.tools or ())]
    choice = request.tool_choice or {}
    parallel = choice.get("disable_parallel_tool_use") is not True
    return Turn(
        fields=fields,
        terms=terms_of(fields, config.limits, guard=config.collapse_guard),
        messages=messages,
        tools=functions or None,
        use=tool_use(functions, _choice(choice), parallel, config.limits),
        structured=structured_of(fields, config.limits),
        most_tokens=fields.max_tokens,
        continue_final_message=continues,
        variables=_variables(request),
    )


def ignored_of(request: CountTokensRequest, config: GatewayConfig) -> list[str]:
    """Fields within fields that have no effect. UnsupportedParameter for them in strict mode."""
    ignored = ["thinking.budget_tokens"] if "budget_tokens" in (request.thinking or {}) else []
    if ignored and config.strict:
        raise UnsupportedParameter(ignored[0])
    return ignored


def thinking_of(thinking: Mapping[str, Any] | None) -> Thinking:
    """How much of what the model thinks is told."""
    if thinking is None:
        return "shown"
    return (
        "left out" if thinking["type"] == "disabled" else "omitted" if thinking.get("display") == "omitted" else "shown"
    )


def _fields(request: CountTokensRequest) -> GenerationFields:
    schema = _schema(request)
    wanted = None if schema is None else {"type": "json_schema", "json_schema": {"schema": schema}}
    if not isinstance(request, MessagesRequest):
        return GenerationFields(response_format=wanted)
    return GenerationFields(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=request.stop_sequences,
        max_tokens=request.max_tokens,
        stream=request.stream,
        seed=request.seed,
        collapse_guard=request.collapse_guard,
        response_format=wanted,
    )


def _schema(request: CountTokensRequest) -> object | None:
    """Of the answer; None: it is free."""
    given = {
        "output_config.format": (request.output_config or {}).get("format"),
        "output_format": request.output_format,
    }
    found = {param: value for param, value in given.items() if value is not None}
    if len(found) > 1:
        raise RequestError("output_format beside output_config.format", param="output_format", hint="send one of them")
    for param, value in found.items():
        match value:
            case {"type": "json_schema", "schema": dict(schema)}:
                return schema
        raise RequestError("unknown format", param=param, hint='send {"type": "json_schema", "schema": {...}}')
    return None


def _function(tool: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A tool as chat completions describe it."""
    if tool.get("type") not in (None, "custom"):
        raise RequestError(
            "not a tool with a schema of its own",
            param=f"{where}.type",
            hint="the server knows no tools itself: send name, description and input_schema",
        )
    if not isinstance(tool.get("input_schema"), Mapping):
        raise RequestError("not a schema", param=f"{where}.input_schema", hint='send {"type": "object", ...}')
    given = {name: tool.get(name) for name in ("name", "description", "strict")}
    function = {**given, "parameters": tool["input_schema"]}
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _choice(choice: Mapping[str, Any]) -> str | dict[str, Any] | None:
    match choice.get("type"):
        case None if not choice:
            return None
        case "auto":
            return "auto"
        case "none":
            return "none"
        case "any":
            return "required"
        case "tool" if isinstance(choice.get("name"), str):
            return {"type": "function", "function": {"name": choice["name"]}}
        case "tool":
            raise RequestError("not a string", param="tool_choice.name")
        case _:
            raise RequestError("unknown type", param="tool_choice.type", hint="known: auto, any, tool, none")


def _variables(request: CountTokensRequest) -> dict[str, Any]:
    """Templates have one of two names for whether to think; a variable that one does not know has no effect."""
    variables: dict[str, Any] = {"reasoning_effort": (request.output_config or {}).get("effort")}
    if request.thinking is not None:
        kind = request.thinking.get("type")
        if kind not in _THINKING:
            raise RequestError("unknown type", param="thinking.type", hint=f"known: {', '.join(_THINKING)}")
        variables |= dict.fromkeys(("enable_thinking", "thinking"), kind != "disabled")
    return variables
