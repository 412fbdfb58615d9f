"""No view reads a model's output for itself: of one recorded output all say the same, at once or as a stream."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dayzero.core.events import FinishReason
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import Stand, says, sse, stand
from tests.gateway.views import chat_reader, messages_reader, responses_reader
from tests.grammar.upstream_cases import Case, cases_of, formats


def plain(name: str) -> str:
    """Letters and digits: files and formats differ in the rest."""
    return re.sub(r"[^a-z0-9]", "", name)


STREAMED = {"stream": True}
TOKENS = 100  # of output that may be; the fake replica does not count them
FORMAT_OF = {plain(name): format_ for name, format_ in FORMATS.items()}
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Said:
    """What a client learns of an answer. White space is left out: by itself it is no block and no item."""

    text: str
    reasoning: str
    calls: Sequence[tuple[str, object]]
    is_cut: bool
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


def by_chat(this: Stand, tools: Sequence[dict[str, Any]], fields: dict[str, Any]) -> Said:
    offered = [{"type": "function", "function": tool} for tool in tools]
    streamed = {"stream_options": {"include_usage": True}} if fields else {}
    reply = this.chat(tools=offered, max_tokens=TOKENS, **fields, **streamed)
    if fields:
        *chunks, last = sse(reply)
        (message, finish), usage = chat_reader.assembled(chunks), last["usage"]
    else:
        body = reply.json()
        message, finish, usage = body["choices"][0]["message"], body["choices"][0]["finish_reason"], body["usage"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return Said(
        squeezed(message["content"] or ""),
        squeezed(message.get("reasoning", "")),
        [(call["name"], parsed(call["arguments"])) for call in calls],
        finish == "length",
        usage["prompt_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
        usage["completion_tokens"],
        usage["completion_tokens_details"]["reasoning_tokens"],
    )


def by_messages(this: Stand, tools: Sequence[dict[str, Any]], fields: dict[str, Any]) -> Said:
    offered = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in tools]
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": TOKENS, "tools": offered}
    reply = this.post("/v1/messages", {**body, **fields})
    message = messages_reader.assembled(messages_reader.events_of(reply)) if fields else reply.json()
    blocks, usage = message["content"], message["usage"]
    return Said(
        squeezed("".join(block["text"] for block in blocks if block["type"] == "text")),
        squeezed("".join(block["thinking"] for block in blocks if block["type"] == "thinking")),
        [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        message["stop_reason"] == "max_tokens",
        usage["input_tokens"] + usage["cache_read_input_tokens"],
        usage["cache_read_input_tokens"],
        usage["output_tokens"],
        usage["output_tokens_details"]["thinking_tokens"],
    )


def by_responses(this: Stand, tools: Sequence[dict[str, Any]], fields: dict[str, Any]) -> Said:
    offered = [{"type": "function", **tool} for tool in tools]
    reply = this.post("/v1/responses", {"input": "hi", "max_output_tokens": TOKENS, "tools": offered, **fields})
    if fields:
        events = [block.split("\n")[1].removeprefix("data: ") for block in reply.text.split("\n\n")[:-1]]
        body = responses_reader.final_response([json.loads(event) for event in events])
    else:
        body = reply.json()
    items, usage = body["output"], body["usage"]
    return Said(
        squeezed("".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])),
        squeezed("".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["content"])),
        [(item["name"], parsed(item["arguments"])) for item in items if item["type"] == "function_call"],
        body["status"] == "incomplete",
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )


def squeezed(text: str) -> str:
    return "".join(text.split())


def parsed(arguments: str) -> Any:
    """An empty object for what was cut."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def servable(name: str) -> Iterator[Case]:
    return (case for case in cases_of(name) if all(NAME.fullmatch(tool.name) for tool in case.tools))


@pytest.mark.parametrize("name", formats())
@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
def test_all_views_say_the_same_of_one_output(name: str, finish: FinishReason) -> None:
    for number, case in enumerate(servable(name)):
        output = case.output if finish is FinishReason.STOP else case.output[: len(case.output) * 2 // 3]
        tools = [{"name": tool.name, "parameters": tool.parameters} for tool in case.tools]
        this = stand(
            says(output, finish, per_event=1 + number % 7),
            tool_format=FORMAT_OF[plain(name)],
            collapse_guard="off",
        )
        said = by_chat(this, tools, {})
        for view in (by_chat, by_messages, by_responses):
            for fields in ({}, STREAMED):
                assert view(this, tools, fields) == said, (case.about, view.__name__, fields)
        prompts = [submit.prompt for submit in this.replica.submits]
        assert all(prompt == prompts[0] for prompt in prompts)
