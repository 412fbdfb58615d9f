"""What the events of a message come to, put together by a client that trusts nothing."""

import json
from typing import Any

import httpx


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream; each is named as its data is."""
    assert response.headers["content-type"].startswith("text/event-stream")
    events = []
    for written in response.text.split("\n\n")[:-1]:
        if written.startswith(":"):
            continue
        name, data = written.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def assembled(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a stream comes to. At every step its deltas are those of the open block."""
    start, ping, *rest, end, stop = events
    assert (start["type"], ping["type"]) == ("message_start", "ping")
    assert (end["type"], stop) == ("message_delta", {"type": "message_stop"})
    message = start["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    arguments, is_open = "", False
    for event in rest:
        if event["type"] == "content_block_start":
            assert not is_open
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
            arguments, is_open = "", True
            continue
        assert is_open
        assert event["index"] == len(message["content"]) - 1
        block = message["content"][-1]
        if event["type"] == "content_block_stop":
            is_open = False
            if block["type"] == "tool_use":
                block["input"] = parsed(arguments)
            continue
        delta = event["delta"]
        kind = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
        assert kind.get(delta["type"], "tool_use") == block["type"]
        if delta["type"] == "input_json_delta":
            arguments += delta["partial_json"]
        elif delta["type"] == "signature_delta":
            assert not block["signature"]
            block["signature"] = delta["signature"]
        else:
            block[block["type"]] += delta[block["type"]]
    assert not is_open
    for name, value in start["message"]["usage"].items():
        assert end["usage"][name] == value or name.startswith("output")
    return {**message, **end["delta"], "usage": end["usage"]}


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def without_ids(message: dict[str, Any]) -> dict[str, Any]:
    assert message["id"].startswith("msg_")
    assert all(block["id"].startswith("toolu_") for block in message["content"] if block["type"] == "tool_use")
    return {**message, "id": "", "content": [{**block, "id": ""} for block in message["content"]]}
