"""Every view of a conversation tells of the same parts: outputs of every format, streamed and at once."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dayzero.core.events import TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Submit
from tests.gateway.stand import Stand, says, sse, stand
from tests.gateway.views import test_chat_calls as chat
from tests.gateway.views import test_messages as messages
from tests.gateway.views import test_responses as responses
from tests.gateway.views.responses_reader import final_response
from tests.grammar.upstream_cases import Case, OfferedTool, cases_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Told:
    """White space is left out of text: in messages it is no block by itself."""

    text: str
    reasoning: str
    calls: list[tuple[str, Any]]


def told(text: str, reasoning: str, calls: Sequence[tuple[str, Any]]) -> Told:
    return Told("".join(text.split()), "".join(reasoning.split()), list(calls))


def arguments_of(text: str) -> Any:
    """A call that was cut has none that two views could agree on."""
    try:
        return json.loads(text)
    except ValueError:
        return {}


def by_chat(this: Stand, tools: Sequence[OfferedTool], *, stream: bool) -> Told:
    functions = [{"type": "function", "function": {"name": t.name, "parameters": t.parameters}} for t in tools]
    response = this.chat(tools=functions, stream=stream)
    message = chat.assembled(sse(response))[0] if stream else response.json()["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return told(
        message["content"] or "",
        message.get("reasoning", ""),
        [(call["name"], arguments_of(call["arguments"])) for call in calls],
    )


def by_responses(this: Stand, tools: Sequence[OfferedTool], *, stream: bool) -> Told:
    functions = [{"type": "function", "name": tool.name, "parameters": tool.parameters} for tool in tools]
    response = responses.respond(this, tools=functions, stream=stream)
    body = final_response(responses.events_of(response)) if stream else response.json()
    texts = {"message": "", "reasoning": ""}
    calls = []
    for item in body["output"]:
        if item["type"] == "function_call":
            calls.append((item["name"], arguments_of(item["arguments"])))
        else:
            texts[item["type"]] += item["content"][0]["text"]
    return told(texts["message"], texts["reasoning"], calls)


def by_messages(this: Stand, tools: Sequence[OfferedTool], *, stream: bool) -> Told:
    offered = [{"name": tool.name, "input_schema": tool.parameters} for tool in tools]
    response = messages.ask(this, tools=offered, stream=stream)
    message = messages.assembled(messages.events_of(response)) if stream else response.json()
    blocks = message["content"]
    return told(
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
    )


VIEWS: dict[str, Callable[..., Told]] = {"chat": by_chat, "responses": by_responses, "messages": by_messages}


def cases(name: str) -> list[Case]:
    found = cases_of(name.replace("-", "_").replace(".", ""))
    return [case for case in found if all(_NAME.fullmatch(tool.name) for tool in case.tools)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_view_says_the_same_of_every_output(name: str) -> None:
    output = ""

    def script(submit: Submit) -> list[TokenEvent]:
        return says(output, per_event=5)(submit)

    this = stand(script, tool_format=FORMATS[name], collapse_guard="off")
    num_calls = 0
    for case in cases(name):
        output = case.output
        found = {
            (view, stream): tell(this, case.tools, stream=stream)
            for view, tell in VIEWS.items()
            for stream in (False, True)
        }
        first = found["chat", False]
        assert {key: value for key, value in found.items() if value != first} == {}, case.about
        num_calls += len(first.calls)
    assert num_calls
