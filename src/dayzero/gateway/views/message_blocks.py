"""Anthropic's messages, made of blocks, in the form that chat templates know. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dayzero.errors import RequestError
from dayzero.gateway.parse import FieldRules

_ROLES = ("user", "assistant", "system")

Block = tuple[Mapping[str, Any], str]  # and the field that it stands in
Message = dict[str, Any]


class AnyBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What every block may have. `cache_control` asks for what is done anyway."""

    cache_control: Any = None


class TextBlock(AnyBlock, frozen=True, kw_only=True, tag="text"):
    """What is said."""

    text: Any = None


class ThinkingBlock(AnyBlock, frozen=True, kw_only=True, tag="thinking"):
    """What the model thought."""

    thinking: Any = None


class RedactedBlock(AnyBlock, frozen=True, kw_only=True, tag="redacted_thinking"):
    """What another server's model thought."""


class ToolUseBlock(AnyBlock, frozen=True, kw_only=True, tag="tool_use"):
    """A call."""

    id: Any = None
    name: Any = None
    input: Any = None


class ToolResultBlock(AnyBlock, frozen=True, kw_only=True, tag="tool_result"):
    """What came of it."""

    tool_use_id: Any = None
    content: str | list[TextBlock] | None = None
    is_error: Any = None


class BlockMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`messages[]`."""

    role: Any = None
    content: str | list[TextBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | ToolResultBlock] | None = None


BLOCK_RULES = FieldRules(
    neutral={},
    harmless=frozenset(
        {
            "messages[].content[].caller",
            "messages[].content[].citations",
            "messages[].content[].content[].citations",
            "messages[].content[].data",
            "messages[].content[].signature",
            "messages[].content[].toolset_name",
            "system[].citations",
        }
    ),
    inside={"messages": list[BlockMessage], "system": str | list[TextBlock]},
)


def messages_of(
    system: str | Sequence[Mapping[str, Any]] | None, messages: Sequence[Mapping[str, Any]]
) -> tuple[list[Message], bool]:
    """The messages, and whether the last one is to be continued: it is the assistant's.

    Consecutive messages of one role are one turn. Raises RequestError, naming the field.
    """
    found: list[Message] = []
    if system:
        found.append({"role": "system", "content": _text(_blocks(system, "system"))})
    names: dict[str, str] = {}  # of the calls so far, by their ids
    role = ""
    for role, blocks in _turns(messages):
        if role == "assistant":
            said = _assistant(blocks)
            names |= {call["id"]: call["function"]["name"] for call in said.get("tool_calls", ())}
            found.append(said)
        elif role == "user":
            found += _user(blocks, names)
        else:
            found.append({"role": "system", "content": _text(blocks)})
    if role != "assistant":
        return found, False
    if "tool_calls" in found[-1]:
        raise RequestError(
            "the last message has calls without their results", param="messages", hint="send a tool_result for each"
        )
    if not found[-1]["content"]:
        return found[:-1], False
    return found, True


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Block]]]:
    turns: list[tuple[str, list[Block]]] = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        role = message.get("role")
        if role not in _ROLES:
            raise RequestError("unknown role", param=f"{where}.role", hint=f"known: {', '.join(_ROLES)}")
        blocks = _blocks(message.get("content"), f"{where}.content")
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    return turns


def _blocks(content: object, where: str) -> list[Block]:
    """A string is one block of text."""
    if isinstance(content, str):
        return [({"type": "text", "text": content}, where)]
    if not isinstance(content, list):
        raise RequestError("content is neither a string nor a list of blocks", param=where)
    if not content:
        raise RequestError("no content", param=where, hint="send at least one block")
    blocks = [(block, f"{where}[{number}]") for number, block in enumerate(content)]
    for block, at in blocks:
        if not isinstance(block, Mapping):
            raise RequestError("not a block", param=at, hint='send {"type": "text", "text": ...}')
    return blocks


def _user(blocks: Sequence[Block], names: Mapping[str, str]) -> Iterator[Message]:
    """Results of tools are messages of their own, in their places among the text."""
    texts: list[Block] = []
    for block, at in blocks:
        if block.get("type") != "tool_result":
            texts.append((block, at))
            continue
        if texts:
            yield {"role": "user", "content": _text(texts)}
            texts = []
        call_id = _string(block, "tool_use_id", at)
        content = block.get("content")
        result = "" if content is None or content == [] else _text(_blocks(content, f"{at}.content"))
        if not isinstance(block.get("is_error"), bool | None):
            raise RequestError("not true or false", param=f"{at}.is_error")
        if block.get("is_error"):
            result = f"Error: {result}"  # no template has a place for it
        told = {"role": "tool", "tool_call_id": call_id, "content": result}
        yield {**told, "name": names[call_id]} if call_id in names else told
    if texts:
        yield {"role": "user", "content": _text(texts)}


def _assistant(blocks: Sequence[Block]) -> Message:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block, at in blocks:
        match block.get("type"):
            case "text":
                texts.append(_string(block, "text", at))
            case "thinking":
                thoughts.append(_string(block, "thinking", at))
            case "redacted_thinking":
                pass  # of another server, which alone could read it
            case "tool_use":
                calls.append(_call(block, at))
            case _:
                raise _unknown(block, at)
    content = "\n".join(texts)
    said: Message = {"role": "assistant", "content": content}
    if thought := "\n".join(filter(None, thoughts)):
        said |= {"reasoning": thought, "reasoning_content": thought}
        if not content:
            said["thinking"] = thought  # the name in harmony's template, which refuses it beside content
    if calls:
        said["tool_calls"] = calls
    return said


def _call(block: Mapping[str, Any], at: str) -> dict[str, Any]:
    arguments = block.get("input", {})
    if not isinstance(arguments, Mapping):
        raise RequestError("not an object", param=f"{at}.input")
    function = {"name": _string(block, "name", at), "arguments": arguments}
    return {"id": _string(block, "id", at), "type": "function", "function": function}


def _text(blocks: Sequence[Block]) -> str:
    for block, at in blocks:
        if block.get("type") != "text":
            raise _unknown(block, at)
    return "\n".join(_string(block, "text", at) for block, at in blocks)


def _string(block: Mapping[str, Any], name: str, at: str) -> str:
    value = block.get(name)
    if not isinstance(value, str):
        raise RequestError("not a string", param=f"{at}.{name}")
    return value


def _unknown(block: Mapping[str, Any], at: str) -> RequestError:
    return RequestError(
        f"a block that cannot stand here: {str(block.get('type'))[:64]}",
        param=f"{at}.type",
        hint="this model reads text, and the server runs no tools",
    )
