"""No view reads a model's output for itself: of one recorded output all say the same, at once or as a stream."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dayzero.core.events import FinishReason, TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.router.fake import Script
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, says, sse, stand
from tests.gateway.views import chat_reader, messages_reader, responses_reader
from tests.grammar.upstream_cases import Case, cases_of, formats


def plain(name: str) -> str:
    """Letters and digits: files and formats differ in the rest."""
    return re.sub(r"[^a-z0-9]", "", name)


STREAMED = {"stream": True}
SPLITS = st.lists(st.integers(1, 40), min_size=1, max_size=6)  # tokens of each event, in turns
TOKENS = 100  # of output that may be; the fake replica does not count them
FORMAT_OF = {plain(name): format_ for name, format_ in FORMATS.items()}
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


Part = tuple[str, Any]  # "reasoning" or "text" and what it says, or "call", its name and arguments


@dataclass(frozen=True)
class Said:
    """What a client learns of an answer. White space is left out: by itself it is no block and no item."""

    parts: Sequence[Part]
    is_cut: bool
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


def without_order(said: Said) -> Said:
    """As chat completions say it: all reasoning, all text, all calls."""
    joined = [(kind, "".join(text for of, text in said.parts if of == kind)) for kind in ("reasoning", "text")]
    calls = [part for part in said.parts if part[0] == "call"]
    return replace(said, parts=[*(part for part in joined if part[1]), *calls])


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
    texts = [("reasoning", message.get("reasoning")), ("text", message["content"])]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return Said(
        [
            *((kind, squeezed(text)) for kind, text in texts if text and squeezed(text)),
            *(("call", (call["name"], parsed(call["arguments"]))) for call in calls),
        ],
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
    usage = message["usage"]

    def part(block: dict[str, Any]) -> Part:
        if block["type"] == "tool_use":
            return "call", (block["name"], block["input"])
        return {"thinking": "reasoning"}.get(block["type"], "text"), squeezed(block[block["type"]])

    return Said(
        list(map(part, message["content"])),
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
    usage = body["usage"]

    def part(item: dict[str, Any]) -> Part:
        if item["type"] == "function_call":
            return "call", (item["name"], parsed(item["arguments"]))
        return {"reasoning": "reasoning"}.get(item["type"], "text"), squeezed(
            "".join(p["text"] for p in item["content"])
        )

    return Said(
        [found for item in body["output"] if (found := part(item)) != ("text", "")],  # so it says that nothing was said
        body["status"] == "incomplete",
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )


def by_completions(this: Stand, prompt: Sequence[int], fields: dict[str, Any]) -> Said:
    """Its text is the output as it was written, white space and all."""
    streamed = {"stream_options": {"include_usage": True}} if fields else {}
    reply = this.complete(prompt, max_tokens=TOKENS, **fields, **streamed)
    chunks = sse(reply) if fields else [reply.json()]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    usage = chunks[-1]["usage"]
    return Said(
        [("text", "".join(choice["text"] for choice in choices))],
        choices[-1]["finish_reason"] == "length",
        usage["prompt_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
        usage["completion_tokens"],
        0,
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


class Tape:
    """Says what is on it."""

    def __init__(self) -> None:
        self.script: Script = says("")

    def __call__(self, submit: Submit) -> Sequence[TokenEvent]:
        return self.script(submit)


@pytest.mark.parametrize("name", formats())
@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
@settings(derandomize=True, deadline=None, max_examples=2, phases=[Phase.generate])  # token by token, then as drawn
@given(st.data())
def test_all_views_say_the_same_of_one_output(name: str, finish: FinishReason, data: st.DataObject) -> None:
    form, tape = FORMAT_OF[plain(name)], Tape()
    this = stand(tape, tool_format=form, collapse_guard="off")
    for case in servable(name):
        output = case.output if finish is FinishReason.STOP else case.output[: len(case.output) * 2 // 3]
        tape.script = says(output, finish, per_event=data.draw(SPLITS, case.about))
        tools = [{"name": tool.name, "parameters": tool.parameters} for tool in case.tools]
        this.replica.submits.clear()
        said = by_messages(this, tools, {})
        for view in (by_messages, by_responses):
            for fields in ({}, STREAMED):
                assert view(this, tools, fields) == said, (case.about, view.__name__, fields)
        prompt = this.replica.submits[0].prompt
        raw = replace(said, parts=[("text", output)], reasoning_tokens=0)
        for fields in ({}, STREAMED):
            assert by_chat(this, tools, fields) == without_order(said), (case.about, fields)
            assert by_completions(this, prompt, fields) == raw, (case.about, fields)
        if not any(marker in output for marker in form.markers) and "call" not in dict(said.parts):
            assert said.parts == [("text", squeezed(output))], case.about
        assert all(submit.prompt == prompt for submit in this.replica.submits)
