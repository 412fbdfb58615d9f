"""POST /v1/responses: the same turns as chat completions, in OpenAI's newer form."""

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.core.sampling import SamplingParams
from dayzero.errors import RequestError
from dayzero.gateway import exchange
from dayzero.gateway.config import GatewayConfig, Limits
from dayzero.gateway.fields import HARMLESS, DrawingFields, GenerationFields, terms_of
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.response_store import ResponseStore, StoredResponse
from dayzero.gateway.service import TextService
from dayzero.gateway.structured import Structured, json_of
from dayzero.gateway.tools import tool_use
from dayzero.gateway.turn import Turn, Turns
from dayzero.gateway.views.responses_format import Keep, ResponsesFormat
from dayzero.gateway.views.responses_input import ITEM_RULES, Item, check_include, items_of, messages_of
from dayzero.gateway.views.responses_stored import find_stored
from dayzero.grammar.wanted import ANY_OBJECT


class TextFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`text.format`. `strict` makes no difference: what a schema says is enforced."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the text of an answer shall be."""

    format: TextFormat | None = None


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much a model shall think."""

    effort: str | None = None


class ResponsesTool(msgspec.Struct, frozen=True, kw_only=True):
    """`tools[]`."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedTool(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice.tools[]`."""

    type: str | None = None
    name: str | None = None


class ResponsesToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice`, where it is no word."""

    type: str | None = None
    name: str | None = None
    mode: str | None = None
    tools: list[NamedTool] | None = None


class ResponsesRequest(DrawingFields, frozen=True, kw_only=True):
    """The fields that have an effect. None: not given.

    input          a user's text, or items: messages, calls, their outputs, reasoning
    instructions   a system message, of this response only
    include        what would be added to items that there are none of
    store          keep it, where the server keeps any; default true there, as OpenAI has it
    """

    input: str | list[Any]
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    include: list[str] | None = None
    max_output_tokens: int | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None


RULES = ITEM_RULES | FieldRules(
    neutral={
        "background": (False,),
        "context_management": ([],),
        "conversation": (),
        "prompt": (),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
    },
    instead={
        "background": "leave it out: an answer comes at once or as a stream",
        "context_management": "send the items that the model shall see",
        "conversation": "send previous_response_id, or the items",
        "prompt": "send instructions and input",
        "top_logprobs": "send top_logprobs to /v1/chat/completions",
        "truncation": "send the items that the model shall see",
    },
    harmless=HARMLESS
    | {
        "access_programs",
        "background_options",
        "image",
        "max_tool_calls",
        "reasoning.context",
        "reasoning.generate_summary",
        "reasoning.mode",
        "reasoning.summary",
        "stream_options",
        "text.verbosity",
        "tools[].allowed_callers",
        "tools[].async",
        "tools[].defer_loading",
        "tools[].output_schema",
    },
    shapes={"tools": list[ResponsesTool], "tool_choice": str | ResponsesToolChoice},
)

_SWEEP_S = 60.0
_MAX_METADATA = 16
_MAX_METADATA_NAME_CHARS = 64
_MAX_METADATA_CHARS = 512


class ResponsesView:
    """The route. `store` None: nothing outlives its answer."""

    def __init__(self, service: TextService, turns: Turns, store: ResponseStore | None) -> None:
        self._service = service
        self._turns = turns
        self._store = store
        self._is_sweeping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, ResponsesRequest, RULES)
        this = exchange.of(scope)
        response_id = f"resp_{secrets.token_hex(24)}"
        with names_of_responses():
            _check(request)
            items = [*self._before(request, this.tenant), *items_of(request.input)]
            turn = turn_of(request, items, service.config)
            with endpoint.admission.admit(1):
                prepared = await self._turns.prepare(turn, endpoint)
                keep, retention = self._keeping(request, this.tenant, response_id, items)
                response = {
                    **response_of(request, prepared.prompt.params, endpoint.model),
                    "id": response_id,
                    **retention,
                }
                form = ResponsesFormat(response, keep=keep)
                await self._turns.answer(prepared, form, (scope, receive, send))

    def _before(self, request: ResponsesRequest, tenant: str) -> list[Item]:
        """The items of the conversation that goes on."""
        if request.previous_response_id is None:
            return []
        found = find_stored(self._store, tenant, request.previous_response_id, param="previous_response_id")
        items: list[Item] = msgspec.json.decode(found.items)
        return [*items, *msgspec.json.decode(found.body)["output"]]

    def _keeping(
        self, request: ResponsesRequest, tenant: str, response_id: str, items: Sequence[Item]
    ) -> tuple[Keep | None, Mapping[str, Any]]:
        """What keeps a response, and what it says of that."""
        store = self._store
        if store is None or request.store is False:
            return None, {"store": False}
        encoded = msgspec.json.encode(items)
        self._sweep_later(store)

        def keep(body: bytes) -> bool:
            return store.put(tenant, response_id, StoredResponse(body, encoded))

        return keep, {"store": True, "x_retention": {"seconds": store.lifetime_s, "bytes": store.tenant_bytes}}

    def _sweep_later(self, store: ResponseStore) -> None:
        """As long as anything is kept: what has expired leaves memory though nobody asks for it."""
        if not self._is_sweeping:
            self._is_sweeping = True
            asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep, store)

    def _sweep(self, store: ResponseStore) -> None:
        self._is_sweeping = False
        if store.forget_expired():
            self._sweep_later(store)


def turn_of(request: ResponsesRequest, items: Sequence[Item], config: GatewayConfig) -> Turn:
    """Raises RequestError, which names fields as chat completions do."""
    limits = config.limits
    drawing = {name: getattr(request, name) for name in DrawingFields.__struct_fields__}
    fields = GenerationFields(**drawing)
    if request.max_output_tokens is not None and request.max_output_tokens < 1:
        told = f"max_output_tokens out of range: {request.max_output_tokens} (allowed: 1 and more)"
        raise RequestError(told, param="max_output_tokens")
    tools = [_chat_tool(tool, number) for number, tool in enumerate(request.tools or ())]
    effort = None if request.reasoning is None else request.reasoning.effort
    return Turn(
        fields=fields,
        terms=terms_of(fields, limits, guard=config.collapse_guard),
        messages=messages_of(items, request.instructions),
        tools=tools or None,
        use=tool_use(tools, _chat_choice(request.tool_choice), request.parallel_tool_calls, limits),
        structured=_structured(None if request.text is None else request.text.format, limits),
        max_tokens=request.max_output_tokens,
        variables=_variables(effort),
    )


def response_of(request: ResponsesRequest, params: SamplingParams, model: str) -> dict[str, Any]:
    """A response before it has an output, with every field that its schema demands."""
    return {
        "id": "",
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": None,
        "metadata": request.metadata or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": None,
        "reasoning": {"effort": None if request.reasoning is None else request.reasoning.effort, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": params.temperature,
        "text": {"format": _text_format(request.text)},
        "tool_choice": request.tool_choice or "auto",
        "tools": [{"description": None, "parameters": None, "strict": False, **tool} for tool in request.tools or ()],
        "top_logprobs": 0,
        "top_p": params.top_p,
        "truncation": "disabled",
        "usage": None,
        "user": None,
    }


@contextmanager
def names_of_responses() -> Iterator[None]:
    """What is behind this view names a field as chat completions do: a client is told of its own."""
    try:
        yield
    except RequestError as error:
        error.param = _renamed(error.param)
        raise


_NAMES = (
    ("messages", "input"),
    ("max_tokens", "max_output_tokens"),
    ("chat_template_kwargs.reasoning_effort", "reasoning.effort"),
)


def _renamed(param: str | None) -> str | None:
    if param is None:
        return None
    for theirs, ours in _NAMES:
        if param == theirs or param.startswith((f"{theirs}.", f"{theirs}[")):
            return ours
    return param.replace(".function", "", 1) if param.startswith("tools[") else param


def _check(request: ResponsesRequest) -> None:
    check_include(request.include or ())
    metadata = request.metadata or {}
    if len(metadata) > _MAX_METADATA:
        raise RequestError(f"too many entries: {len(metadata)} (limit: {_MAX_METADATA})", param="metadata")
    if any(len(k) > _MAX_METADATA_NAME_CHARS or len(v) > _MAX_METADATA_CHARS for k, v in metadata.items()):
        limits = f"{_MAX_METADATA_NAME_CHARS} characters of a name, {_MAX_METADATA_CHARS} of a value"
        raise RequestError("an entry is too long", param="metadata", hint=f"at most {limits}")


def _variables(effort: str | None) -> dict[str, Any]:
    """Templates have either a degree of reasoning or a switch for it."""
    if effort is None:
        return {}
    return {"reasoning_effort": effort, **({"enable_thinking": False} if effort == "none" else {})}


def _text_format(text: TextOptions | None) -> dict[str, Any]:
    """As a response says it."""
    wanted = None if text is None else text.format
    if wanted is None:
        return {"type": "text"}
    told: dict[str, Any] = msgspec.to_builtins(wanted)
    return {"description": None, "strict": False, **told} if wanted.type == "json_schema" else told


def _structured(wanted: TextFormat | None, limits: Limits) -> Structured | None:
    match wanted:
        case None | TextFormat(type="text"):
            return None
        case TextFormat(type="json_object"):
            return Structured(ANY_OBJECT, "text.format")
        case TextFormat(type="json_schema", schema=dict(schema)):
            return json_of(schema, limits, "text.format.schema")
        case TextFormat(type="json_schema"):
            hint = 'send {"type": "json_schema", "name": ..., "schema": {...}}'
            raise RequestError("no schema", param="text.format.schema", hint=hint)
    raise RequestError("unknown type", param="text.format.type", hint="known: text, json_object, json_schema")


def _chat_tool(tool: Mapping[str, Any], number: int) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise RequestError("unknown type of tool", param=f"tools[{number}].type", hint="known: function")
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def _chat_choice(choice: str | Mapping[str, Any] | None) -> str | Mapping[str, Any] | None:
    match choice:
        case {"type": "function", "name": str(name)}:
            return {"type": "function", "function": {"name": name}}
        case {"type": "allowed_tools", "tools": tools, **rest}:
            return {"type": "allowed_tools", "allowed_tools": {"mode": rest.get("mode", "auto"), "tools": tools}}
    return choice
