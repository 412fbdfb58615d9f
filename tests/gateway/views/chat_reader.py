"""What the chunks of a chat completion come to."""

from typing import Any


def assembled(events: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """The message that the deltas of a stream come to, as clients put it together."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
    finish = None
    for event in events:
        choice = event["choices"][0]
        finish = choice["finish_reason"] or finish
        delta = choice["delta"]
        assert delta.get("tool_calls") != []
        for name in ("content", "reasoning", "reasoning_content"):
            if name in delta:
                message[name] = message.get(name, "") + delta[name]
        for call in delta.get("tool_calls", ()):
            calls = message.setdefault("tool_calls", [])
            if "id" in call:
                assert call["index"] == len(calls)
                assert call["function"]["arguments"] == ""
                calls.append({"id": call["id"], "type": call["type"], "function": {**call["function"]}})
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    if "tool_calls" in message and not message["content"]:
        message["content"] = None
    assert finish is not None
    return message, finish
