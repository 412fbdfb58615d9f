"""What the events of a response come to, put together from its deltas alone, and checked at every step."""

from collections.abc import Sequence
from typing import Any

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
_CHANGING = ("status", "content", "arguments")


class Reader:
    """Reads events in order. `output` is what they have told so far."""

    def __init__(self) -> None:
        self.output: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None

    def read(self, events: Sequence[dict[str, Any]]) -> None:
        for event in events:
            self._read(event)

    def _read(self, event: dict[str, Any]) -> None:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert self._open is None, "an item begins before the last one is done"
            assert event["output_index"] == len(self.output)
            item = event["item"]
            assert item["status"] == "in_progress"
            self._open = item = {**item, **({"content": []} if "content" in item else {})}
            self.output.append(item)
            return
        item = self._open
        assert item is not None, f"{kind} of no item"
        assert event["output_index"] == len(self.output) - 1
        if kind == "output_item.done":
            item["status"] = event["item"]["status"]
            assert item == event["item"], "the deltas come to the item"
            self._open = None
            return
        assert event["item_id"] == item["id"]
        if kind == "content_part.added":
            item["content"].append({**event["part"]})
            assert event["content_index"] == len(item["content"]) - 1
        elif kind == "content_part.done":
            assert item["content"][event["content_index"]] == event["part"]
        elif kind.startswith("function_call_arguments"):
            if kind.endswith("delta"):
                item["arguments"] += event["delta"]
            else:
                assert event["arguments"] == item["arguments"]
        else:
            assert kind.startswith("output_text" if item["type"] == "message" else "reasoning_text")
            part = item["content"][event["content_index"]]
            if kind.endswith("delta"):
                assert event["delta"], "no empty stretches"
                part["text"] += event["delta"]
            else:
                assert event["text"] == part["text"]

    def finish(self) -> list[dict[str, Any]]:
        assert self._open is None, "every item that was added is done"
        return self.output


def final_response(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The response that a stream ends with; what it says is what its events told."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [event["type"] in TERMINAL for event in events] == [False] * (len(events) - 1) + [True]
    final: dict[str, Any] = events[-1]["response"]
    assert events[-1]["type"] == f"response.{final['status']}"
    assert {event["response"]["id"] for event in (*events[:2], events[-1])} == {final["id"]}
    reader = Reader()
    reader.read([event for event in events[2:-1] if event["type"] != "error"])
    assert reader.finish() == final["output"]
    return final


def without_ids(output: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in output]
