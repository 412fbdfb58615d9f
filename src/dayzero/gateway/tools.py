"""The tools of a request: checked, and which of them may or must be called. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dayzero.errors import RequestError
from dayzero.gateway.config import Limits
from dayzero.grammar.tools import ANY_ARGUMENTS, CallMode, Tool

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """`tools[].function`."""

    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True):
    """`tools[]`."""

    type: str | None = None
    function: Function | None = None


class NamedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice.function`."""

    name: str | None = None


class NamedTool(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice.allowed_tools.tools[]`, in one of two forms."""

    type: str | None = None
    function: NamedFunction | None = None
    name: str | None = None


class AllowedTools(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice.allowed_tools`."""

    mode: str | None = None
    tools: list[NamedTool] | None = None


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_choice`, where it is no word."""

    type: str | None = None
    function: NamedFunction | None = None
    allowed_tools: AllowedTools | None = None


TOOL_SHAPES: Mapping[str, Any] = {"tools": list[FunctionTool], "tool_choice": str | ToolChoice}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """What a request wants of its tools.

    tools      that may be called; for "named" the one that must be
    parallel   more than one call in an answer
    """

    mode: CallMode = "none"
    tools: Sequence[Tool] = ()
    parallel: bool = True

    @property
    def must_call(self) -> bool:
        return self.mode in ("required", "named")


def tool_use(
    tools: Sequence[Mapping[str, object]] | None,
    choice: str | Mapping[str, object] | None,
    parallel: bool | None,
    limits: Limits,
) -> ToolUse:
    """Raises RequestError, naming the field. The forms are those of OpenAI's `tools` and `tool_choice`."""
    offered = _tools(tools or (), limits)
    if not offered:
        if choice not in (None, "none", "auto"):
            raise RequestError("tool_choice without tools", param="tool_choice", hint="send tools")
        return ToolUse()
    mode, names = _choice(choice)
    unknown = [name for name in names if name not in {tool.name for tool in offered}]
    if unknown:
        raise RequestError(f"no such tool: {unknown[0][:64]}", param="tool_choice", hint="name one of tools")
    chosen = [tool for tool in offered if not names or tool.name in names]
    return ToolUse(mode=mode, tools=chosen, parallel=mode != "named" and parallel is not False)


def _tools(tools: Sequence[Mapping[str, object]], limits: Limits) -> list[Tool]:
    if len(tools) > limits.tools:
        raise RequestError(f"too many tools: {len(tools)} (limit: {limits.tools})", param="tools")
    found = [_tool(tool, f"tools[{number}]", limits) for number, tool in enumerate(tools)]
    names = [tool.name for tool in found]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise RequestError(f"two tools have one name: {name}", param=f"tools[{number}].function.name")
    return found


def _tool(tool: Mapping[str, object], where: str, limits: Limits) -> Tool:
    if tool.get("type") != "function":
        raise RequestError("unknown type of tool", param=f"{where}.type", hint="known: function")
    function = tool.get("function")
    if not isinstance(function, Mapping):
        raise RequestError("not a function", param=f"{where}.function")
    name = function.get("name")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise RequestError("malformed name", param=f"{where}.function.name", hint="use 1 to 64 of A-Z a-z 0-9 _ -")
    for field, kind in (("description", str), ("strict", bool)):
        if function.get(field) is not None and not isinstance(function[field], kind):
            raise RequestError(f"not a {kind.__name__}", param=f"{where}.function.{field}")
    parameters = function.get("parameters")
    if parameters is None:
        parameters = ANY_ARGUMENTS
    if not isinstance(parameters, Mapping):
        raise RequestError("not an object", param=f"{where}.function.parameters")
    if isinstance(parameters.get("type"), str) and parameters["type"] != "object":
        raise RequestError("the arguments of a function are an object", param=f"{where}.function.parameters.type")
    if len(msgspec.json.encode(parameters)) > limits.schema_bytes:
        raise RequestError(
            f"schema too large (limit: {limits.schema_bytes} bytes)", param=f"{where}.function.parameters"
        )
    return Tool(name, parameters, strict=bool(function.get("strict")), place=f"{where}.function.parameters")


def _choice(choice: str | Mapping[str, object] | None) -> tuple[CallMode, list[str]]:
    """The mode, and the names of those that may be called; none: all."""
    match choice:
        case None | "auto":
            return "auto", []
        case "none":
            return "none", []
        case "required" | "any":
            return "required", []
        case {"type": "function", "function": {"name": str(name)}}:
            return "named", [name]
        case {"type": "allowed_tools", "allowed_tools": {"tools": []}}:
            raise RequestError("no tools are allowed", param="tool_choice.allowed_tools", hint="use none")
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": [*tools]}}:
            return ("auto" if mode == "auto" else "required"), [_named(tool) for tool in tools]
        case _:
            raise RequestError(
                "unknown tool_choice", param="tool_choice", hint="use none, auto, required or a function by its name"
            )


def _named(tool: object) -> str:
    match tool:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return name
    raise RequestError("not a function with a name", param="tool_choice.allowed_tools")
