"""The parts of an answer as the output items of a response, and the events that tell of them. Pure, but for ids.

Every item that is added is done, the last one too; nothing is told of an item that is done. What the events come to is
what the items say.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dayzero.gateway.views.responses_input import Item, draw_id
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """One type of item.

    told        what events of its text are called
    part        what its text is in, before there is any; None: the item itself has it
    text_field  what it is called there
    extra       what events of it say beside it
    """

    type: str
    told: str
    part: Mapping[str, Any] | None = None
    text_field: str = "text"
    extra: Mapping[str, Any] = field(default_factory=dict)


_MESSAGE = _Kind(
    "message",
    "response.output_text",
    part={"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    extra={"logprobs": []},
)
_REASONING = _Kind("reasoning", "response.reasoning_text", part={"type": "reasoning_text", "text": ""})
_CALL = _Kind("function_call", "response.function_call_arguments", text_field="arguments")


@dataclass(slots=True)
class _Open:
    """The item that is being written; `place` says in its events which one that is."""

    kind: _Kind
    item: Item
    place: Mapping[str, Any]
    pieces: list[str] = field(default_factory=list)


class OutputItems:
    """The output of one response. `items` are those that are done."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._open: _Open | None = None

    def push(self, part: Part) -> list[Event]:
        """What a part brings to tell."""
        match part:
            case Text("") | Reasoning("") | CallArguments(_, ""):
                return []
            case Text(text):
                return self._say(_MESSAGE, text, {"role": "assistant", "content": []})
            case Reasoning(text):
                return self._say(_REASONING, text, {"summary": [], "content": []})
            case CallStarted(_, name):
                call_id = f"call_{secrets.token_hex(12)}"
                return [*self.close(), *self._begin(_CALL, {"call_id": call_id, "name": name, "arguments": ""})]
            case CallArguments(_, text):
                return self._tell(text)
            case CallEnded(_, is_complete):
                return self.close(is_complete=is_complete)

    def finish(self, *, is_complete: bool) -> list[Event]:
        """The end of the output. A model that said nothing said an empty message."""
        if self._open is None and not self.items:
            begun = self._begin(_MESSAGE, {"role": "assistant", "content": []})
            return [*begun, *self.close(is_complete=is_complete)]
        return self.close(is_complete=is_complete)

    def close(self, *, is_complete: bool = True) -> list[Event]:
        """End the item that is open, if one is."""
        if self._open is None:
            return []
        this, self._open = self._open, None
        kind, text = this.kind, "".join(this.pieces)
        done = {"type": f"{kind.told}.done", **this.place, kind.text_field: text, **kind.extra}
        item = {**this.item, "status": "completed" if is_complete else "incomplete"}
        events = [done]
        if kind.part is None:
            item[kind.text_field] = text
        else:
            part = {**kind.part, kind.text_field: text}
            item["content"] = [part]
            events.append({"type": "response.content_part.done", **this.place, "part": part})
        self.items.append(item)
        events.append({"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": item})
        return events

    def _say(self, kind: _Kind, text: str, fields: Mapping[str, Any]) -> list[Event]:
        if self._open is not None and self._open.kind is kind:
            return self._tell(text)
        return [*self.close(), *self._begin(kind, fields), *self._tell(text)]

    def _begin(self, kind: _Kind, fields: Mapping[str, Any]) -> list[Event]:
        item: Item = {"type": kind.type, "id": draw_id(kind.type), **fields, "status": "in_progress"}
        output_index = len(self.items)
        place: dict[str, Any] = {"item_id": item["id"], "output_index": output_index}
        events: list[Event] = [{"type": "response.output_item.added", "output_index": output_index, "item": item}]
        if kind.part is not None:
            place["content_index"] = 0
            events.append({"type": "response.content_part.added", **place, "part": kind.part})
        self._open = _Open(kind, item, place)
        return events

    def _tell(self, text: str) -> list[Event]:
        this = self._open
        assert this is not None, "no item has begun"
        this.pieces.append(text)
        return [{"type": f"{this.kind.told}.delta", **this.place, "delta": text, **this.kind.extra}]
