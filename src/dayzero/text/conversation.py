"""What a client's messages and tools look like to a template: checked, and with one form for each thing.

Content is a string; a `developer` speaks as `system`; what is null is absent; arguments of tool calls are objects.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from dayzero.errors import RequestError

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})

_FLAGS = frozenset({"enable_thinking", "thinking"})
_WORDS = frozenset({"reasoning_effort", "date_string"})
_WORD = re.compile(r"[A-Za-z0-9 ,.:_-]{1,64}")
VARIABLES = _FLAGS | _WORDS | {"documents"}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one rendering. Plain values: it also crosses to the rendering process."""

    messages: list[dict[str, object]]
    tools: list[dict[str, object]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    variables: dict[str, object] = {}


class Rendering(msgspec.Struct, frozen=True):
    """One conversation, rendered as it is and with all client text under a veil."""

    text: str
    veiled: str


def conversation(
    messages: Sequence[Mapping[str, object]],
    *,
    tools: Sequence[Mapping[str, object]] | None = None,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    variables: Mapping[str, object] = MappingProxyType({}),
) -> Conversation:
    """Raises RequestError, naming the field, for whatever a template must not see.

    variables   what templates may ask for beside the messages: see `VARIABLES`; None counts as absent
    """
    if not messages:
        raise RequestError("no messages", param="messages", hint="send at least one")
    if continue_final_message and add_generation_prompt:
        raise RequestError(
            "continue_final_message and add_generation_prompt exclude each other",
            param="continue_final_message",
            hint="set add_generation_prompt to false",
        )
    checked = [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]
    if continue_final_message and not checked[-1]["content"]:
        raise RequestError("the final message has no content to continue", param="messages")
    return Conversation(
        messages=checked,
        tools=[_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)] if tools else None,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        variables={name: _variable(name, value) for name, value in variables.items() if value is not None},
    )


def _message(message: object, where: str) -> dict[str, object]:
    if not isinstance(message, Mapping):
        raise RequestError("not a message", param=where, hint="send objects with role and content")
    role = message.get("role")
    if not (isinstance(role, str) and role in ROLES):
        raise RequestError("unknown role", param=f"{where}.role", hint=f"known: {', '.join(sorted(ROLES))}")
    checked = {key: value for key, value in message.items() if value is not None}
    checked["role"] = "system" if role == "developer" else role
    checked["content"] = _content(message.get("content"), f"{where}.content")
    _check_id(checked.get("tool_call_id"), f"{where}.tool_call_id")
    calls = checked.pop("tool_calls", None)
    if calls:
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise RequestError("not a list", param=f"{where}.tool_calls")
        checked["tool_calls"] = [_call(call, f"{where}.tool_calls[{n}]") for n, call in enumerate(calls)]
    return checked


def _content(content: object, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise RequestError("content is neither a string nor a list of parts", param=where)
    texts = []
    for index, part in enumerate(content):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise RequestError("not a text part", param=f"{where}[{index}]", hint="this model reads text only")
        texts.append(text)
    return "\n".join(texts)


def _call(call: object, where: str) -> dict[str, object]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("not a function call with a name", param=where)
    if call.get("type", "function") != "function":
        raise RequestError("unknown type", param=f"{where}.type", hint="known: function")
    _check_id(call.get("id"), f"{where}.id")
    return {**call, "type": "function", "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _check_id(given: object, where: str) -> None:
    if not (given is None or isinstance(given, str)):
        raise RequestError("not a string", param=where)


def _arguments(arguments: object) -> object:
    """An object, as templates expect. Broken JSON, which a model may have written, stays the string that it is."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        parsed = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _tool(tool: object, where: str) -> dict[str, object]:
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        raise RequestError("unknown type of tool", param=f"{where}.type", hint="known: function")
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("not a function with a name", param=f"{where}.function")
    return {**tool, "function": {key: value for key, value in function.items() if value is not None}}


def _variable(name: str, value: object) -> object:
    param = f"chat_template_kwargs.{name[:64]}"
    if name not in VARIABLES:
        raise RequestError(
            "not a variable of chat templates", param=param, hint=f"known: {', '.join(sorted(VARIABLES))}"
        )
    if name in _FLAGS and not isinstance(value, bool):
        raise RequestError("not true or false", param=param)
    if name in _WORDS and not (isinstance(value, str) and _WORD.fullmatch(value)):
        raise RequestError("not a short plain word", param=param)
    if name == "documents":
        return _documents(value, param)
    return value


def _documents(documents: object, param: str) -> list[dict[str, object]]:
    if not isinstance(documents, Sequence) or not all(isinstance(document, Mapping) for document in documents):
        raise RequestError("not a list of objects", param=param)
    return [dict(document) for document in documents]
