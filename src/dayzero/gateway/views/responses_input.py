"""The items of a Responses request: checked, in one form, and as messages of a chat. Pure, but for the ids it draws."""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dayzero.errors import RequestError
from dayzero.gateway.errors import UnsupportedParameter
from dayzero.gateway.parse import FieldRules

Item = dict[str, Any]

_ROLES = ("user", "assistant", "system", "developer")
_TEXTS = frozenset({"input_text", "output_text", "text"})
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "function_call_output": "fco"}

# What `include` may ask for: nothing here has any of it, and the reasoning of a response is in its items as it is.
INCLUDABLE = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)


class AnyText(msgspec.Struct, frozen=True, kw_only=True):
    """What every part of text has."""

    text: Any = None


class InputText(AnyText, frozen=True, kw_only=True, tag="input_text"):
    """What the model is told."""


class OutputText(AnyText, frozen=True, kw_only=True, tag="output_text"):
    """What it said."""


class PlainText(AnyText, frozen=True, kw_only=True, tag="text"):
    """Either."""


class ReasoningText(AnyText, frozen=True, kw_only=True, tag="reasoning_text"):
    """What it thought."""


class SummaryText(AnyText, frozen=True, kw_only=True, tag="summary_text"):
    """What it thought, in short."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """Why it said no."""

    refusal: Any = None


class AnyItem(msgspec.Struct, frozen=True, kw_only=True):
    """What every item may have."""

    id: Any = None


class MessageItem(AnyItem, frozen=True, kw_only=True, tag="message"):
    """What is said; also an item without a type."""

    role: Any = None
    content: str | list[InputText | OutputText | PlainText | Refusal] | None = None


class CallItem(AnyItem, frozen=True, kw_only=True, tag="function_call"):
    """A call."""

    call_id: Any = None
    name: Any = None
    arguments: Any = None


class CallOutputItem(AnyItem, frozen=True, kw_only=True, tag="function_call_output"):
    """What came of it."""

    call_id: Any = None
    output: str | list[InputText | OutputText | PlainText] | None = None


class ReasoningItem(AnyItem, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought."""

    content: list[ReasoningText] | None = None
    summary: list[SummaryText] | None = None


ITEM_RULES = FieldRules(
    neutral={},
    harmless=frozenset(
        {
            "input[].async",
            "input[].caller",
            "input[].content[].annotations",
            "input[].content[].logprobs",
            "input[].content[].prompt_cache_breakpoint",
            "input[].encrypted_content",
            "input[].name",
            "input[].namespace",
            "input[].output[].annotations",
            "input[].output[].logprobs",
            "input[].output[].prompt_cache_breakpoint",
            "input[].phase",
            "input[].status",
        }
    ),
    inside={"input": str | list[MessageItem | CallItem | CallOutputItem | ReasoningItem]},
)


def check_include(names: Sequence[str]) -> None:
    """Raises RequestError for a name of what there is, but is not told, and for one of nothing."""
    for name in names:
        if name == "message.output_text.logprobs":
            raise UnsupportedParameter("include")
        if name not in INCLUDABLE:
            raise RequestError("unknown name", param="include", hint=f"known: {', '.join(sorted(INCLUDABLE))}")


def draw_id(kind: str) -> str:
    """The id of a new item of this type."""
    return f"{_PREFIXES[kind]}_{secrets.token_hex(16)}"


def items_of(given: str | Sequence[Any]) -> list[Item]:
    """The input in the form in which items are kept and listed. RequestError names the item at fault."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not given:
        raise RequestError("no items", param="input", hint="send text, or at least one item")
    return [_item(item, f"input[{number}]") for number, item in enumerate(given)]


def messages_of(items: Sequence[Item], instructions: str | None) -> list[dict[str, Any]]:
    """Messages as chat completions have them: what the model thought, said and called in one turn is one message.

    instructions   come first, together with system messages that do: many templates know one such message only
    """
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    names: dict[str, str] = {}  # of calls, by their ids
    for item in items:
        match item["type"]:
            case "message" if item["role"] == "assistant":
                _open_turn(messages, "content", "tool_calls")["content"] = _text(item["content"])
            case "message":
                _add_message(messages, item["role"], _text(item["content"]))
            case "reasoning":
                if thought := _text(item["content"]):
                    turn = _open_turn(messages, "reasoning", "content", "tool_calls")
                    turn["reasoning"] = turn["reasoning_content"] = thought
            case "function_call":
                names[item["call_id"]] = item["name"]
                function = {"name": item["name"], "arguments": item["arguments"]}
                call = {"id": item["call_id"], "type": "function", "function": function}
                _open_turn(messages).setdefault("tool_calls", []).append(call)
            case "function_call_output":
                output = item["output"]
                answer = {"content": output if isinstance(output, str) else _text(output)}
                name = {"name": names[item["call_id"]]} if item["call_id"] in names else {}
                messages.append({"role": "tool", "tool_call_id": item["call_id"], **name, **answer})
    return messages


def _add_message(messages: list[dict[str, Any]], role: str, text: str) -> None:
    speaks_as_system = role in ("system", "developer")
    if speaks_as_system and len(messages) == 1 and messages[0]["role"] == "system":
        messages[0]["content"] += f"\n\n{text}"
    else:
        messages.append({"role": "system" if speaks_as_system else role, "content": text})


def _open_turn(messages: list[dict[str, Any]], *but: str) -> dict[str, Any]:
    """The model's turn at the end of the messages, or a new one if it has any of these fields already."""
    if not messages or messages[-1]["role"] != "assistant" or any(field in messages[-1] for field in but):
        messages.append({"role": "assistant"})
    return messages[-1]


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(part.get("text", part.get("refusal", "")) for part in parts)


def _item(item: object, where: str) -> Item:
    if not isinstance(item, Mapping):
        raise RequestError("not an item", param=where, hint="send objects with role and content, or with a type")
    kind = item.get("type") or "message"
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise RequestError("unknown type of item", param=f"{where}.type", hint=f"known: {', '.join(_KINDS)}")
    return {"type": kind, "id": _id(item.get("id"), kind), **read(item, where)}


def _id(given: object, kind: str) -> str:
    return given if isinstance(given, str) and _NAME.fullmatch(given) else draw_id(kind)


def _message(item: Mapping[str, Any], where: str) -> Item:
    role = item.get("role")
    if role not in _ROLES:
        raise RequestError("unknown role", param=f"{where}.role", hint=f"known: {', '.join(_ROLES)}")
    content = _parts(item.get("content"), f"{where}.content", of_model=role == "assistant")
    return {"role": role, "status": "completed", "content": content}


def _call(item: Mapping[str, Any], where: str) -> Item:
    name, arguments = item.get("name"), item.get("arguments")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise RequestError("malformed name", param=f"{where}.name", hint="use 1 to 64 of A-Z a-z 0-9 . _ -")
    if not isinstance(arguments, str):
        raise RequestError("not a string", param=f"{where}.arguments", hint="send the JSON of the arguments as text")
    return {"call_id": _call_id(item, where), "name": name, "arguments": arguments, "status": "completed"}


def _output(item: Mapping[str, Any], where: str) -> Item:
    output = item.get("output")
    if not isinstance(output, str):
        output = _parts(output, f"{where}.output", of_model=False)
    return {"call_id": _call_id(item, where), "output": output, "status": "completed"}


def _reasoning(item: Mapping[str, Any], where: str) -> Item:
    """Summaries are listed again, but are not what the model thought; nobody here can read what is encrypted."""
    thoughts, summary = item.get("content") or [], item.get("summary") or []
    return {
        "summary": [{"type": "summary_text", "text": text} for text in _texts(summary, "summary_text", where)],
        "content": [{"type": "reasoning_text", "text": text} for text in _texts(thoughts, "reasoning_text", where)],
        "status": "completed",
    }


_KINDS: Mapping[str, Callable[[Mapping[str, Any], str], Item]] = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
    "reasoning": _reasoning,
}


def _call_id(item: Mapping[str, Any], where: str) -> str:
    call_id = item.get("call_id")
    if not (isinstance(call_id, str) and 1 <= len(call_id) <= 128):
        raise RequestError("malformed call_id", param=f"{where}.call_id", hint="send the one of the call")
    return call_id


def _parts(content: object, where: str, *, of_model: bool) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [_part(content, of_model=of_model)]
    if not isinstance(content, Sequence):
        raise RequestError("neither a string nor a list of parts", param=where)
    found: list[dict[str, Any]] = []
    for number, part in enumerate(content):
        match part:
            case {"type": str(kind), "text": str(text)} if kind in _TEXTS:
                found.append(_part(text, of_model=of_model))
            case {"type": "refusal", "refusal": str(text)} if of_model:
                found.append({"type": "refusal", "refusal": text})
            case _:
                raise RequestError("not a text part", param=f"{where}[{number}]", hint="this model reads text only")
    return found


def _part(text: str, *, of_model: bool) -> dict[str, Any]:
    if of_model:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}


def _texts(parts: object, kind: str, where: str) -> list[str]:
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise RequestError(f"not a list of {kind}", param=where)
    for part in parts:
        if not (isinstance(part, Mapping) and part.get("type") == kind and isinstance(part.get("text"), str)):
            raise RequestError(f"not a {kind}", param=where)
    return [part["text"] for part in parts]
