"""How a chat template writes the calls of earlier turns: as its model would have, or they lead the model astray."""

import json
import re
from collections.abc import Mapping

import msgspec

from dayzero.errors import RequestError
from dayzero.gateway.chat_encoder import ChatRenderer
from dayzero.grammar.format import Format
from dayzero.grammar.parser import parser_for
from dayzero.grammar.parts import CallArguments, CallStarted
from dayzero.grammar.tools import Tool
from dayzero.text.conversation import Conversation, Rendering, conversation

_INDEX = re.compile(r"\{index(?::(\d))?\}")
_NAME = "check"
_ARGUMENTS: Mapping[str, object] = {"text": 'a "b" \\ <c>\n{d}', "count": 3, "flags": [True, None]}
_PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}, "flags": {"type": "array"}},
}
_TOOL = {"type": "function", "function": {"name": _NAME, "description": "", "parameters": _PARAMETERS}}


class NamingRenderer:
    """Renders conversations whose calls are named as the model would name them: see `Format.call_id`."""

    def __init__(self, renderer: ChatRenderer, call_id: str) -> None:
        self._renderer = renderer
        self._call_id = call_id

    async def render(self, chat: Conversation) -> Rendering:
        return await self._renderer.render(with_call_ids(chat, self._call_id))


def with_call_ids(chat: Conversation, pattern: str) -> Conversation:
    """The same conversation with other ids of its calls, and of their results; `pattern` "": the client's own."""
    if not pattern:
        return chat
    new_of: dict[object, str] = {}
    count = 0
    messages: list[dict[str, object]] = []
    for message in chat.messages:
        changed = dict(message)
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            named = []
            for call in calls:
                new = call_id(pattern, call["function"]["name"], count)
                count += 1
                new_of[call.get("id")] = new
                named.append({**call, "id": new})
            changed["tool_calls"] = named
        if message.get("tool_call_id") in new_of:
            changed["tool_call_id"] = new_of[message["tool_call_id"]]
        messages.append(changed)
    return msgspec.structs.replace(chat, messages=messages)


def call_id(pattern: str, name: str, index: int) -> str:
    """The id of a conversation's call, by `Format.call_id`."""
    numbered = _INDEX.sub(lambda found: f"{index:0{found[1] or 1}d}", pattern)
    return numbered.replace("{name}", name)


async def history_fault(renderer: ChatRenderer, form: Format) -> str | None:
    """Whether a call that the template writes into the history is read back as that call: why not, or None."""
    asked = {"role": "user", "content": "Check it."}
    call = {"id": "call0", "type": "function", "function": {"name": _NAME, "arguments": json.dumps(_ARGUMENTS)}}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "call0", "name": _NAME, "content": "done"}
    try:
        before = await renderer.render(conversation([asked], tools=[_TOOL]))
        after = await renderer.render(conversation([asked, called, result], tools=[_TOOL]))
    except RequestError as error:
        return f"it does not render a call: {error.message}"
    written = after.text[_common(before.text, after.text) :]
    parser = parser_for(form, [Tool(_NAME, _PARAMETERS)])
    parts = [*parser.push([written]), *parser.finish()]
    names = [part.name for part in parts if isinstance(part, CallStarted)]
    arguments = "".join(part.text for part in parts if isinstance(part, CallArguments) and part.index == 0)
    if names[:1] != [_NAME]:
        return "a call that it writes is not read back as one"
    return None if _is_same(arguments) else "the arguments of a call that it writes are read back as others"


def _common(before: str, after: str) -> int:
    """Where the answer begins. A template may begin thoughts for a new answer that it leaves out of an old one."""
    return next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(before))


def _is_same(arguments: str) -> bool:
    try:
        return bool(json.loads(arguments) == _ARGUMENTS)
    except ValueError:
        return False
