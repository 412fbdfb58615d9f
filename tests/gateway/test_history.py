import asyncio
from typing import Any

import pytest

from dayzero.gateway.history import NamingRenderer, call_id, history_fault, with_call_ids
from dayzero.grammar.formats.registry import FORMATS
from dayzero.text.conversation import Conversation, Rendering, conversation
from dayzero.text.template import ChatTemplate
from tests.text.templates import CALLS, LLAMA3, NAMED, QWEN, TOOL

# As Mistral's: refuses a call whose id has not nine letters or digits.
NINE = (
    "{% for message in messages %}{% for call in message.tool_calls or [] %}"
    "{% if call.id | length != 9 %}{{ raise_exception('nine letters') }}{% endif %}"
    '[TOOL_CALLS][{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, '
    '"id": "{{ call.id }}"}]</s>{% endfor %}{% if message.role == \'tool\' %}{{ message.tool_call_id }}{% endif %}'
    "{{ message.content }}{% endfor %}"
)
SINGLE_QUOTES = QWEN.replace("call.function.arguments | tojson", "call.function.arguments | string")


class Plain:
    def __init__(self, source: str) -> None:
        self._template = ChatTemplate(source, NAMED)

    async def render(self, chat: Conversation) -> Rendering:
        return Rendering(self._template.render(chat), "")


def fault(source: str, format_name: str) -> str | None:
    form = FORMATS[format_name]
    return asyncio.run(history_fault(NamingRenderer(Plain(source), form.call_id), form))


@pytest.mark.parametrize(("source", "format_name"), [(QWEN, "hermes"), (NINE, "mistral-json")])
def test_a_template_that_writes_calls_as_its_model_does_has_no_fault(source: str, format_name: str) -> None:
    assert fault(source, format_name) is None


@pytest.mark.parametrize(
    ("source", "format_name", "said"),
    [
        (QWEN, "mistral", "not read back as one"),
        (LLAMA3, "llama3-json", "not read back as one"),
        (SINGLE_QUOTES, "hermes", "read back as"),
        (NINE.replace("!= 9", "!= 8"), "mistral-json", "nine letters"),
    ],
)
def test_a_template_that_would_lead_its_model_astray_is_found_out(source: str, format_name: str, said: str) -> None:
    found = fault(source, format_name)
    assert found is not None
    assert said in found


def test_calls_are_named_as_the_model_would_and_their_results_with_them() -> None:
    def call(name: str, given: str | None) -> dict[str, Any]:
        named = {} if given is None else {"id": given}
        return {**named, "type": "function", "function": {"name": name, "arguments": "{}"}}

    chat = conversation(
        [
            {"role": "assistant", "content": "", "tool_calls": [call("a", "x"), call("b", "y")]},
            {"role": "tool", "tool_call_id": "y", "content": ""},
            {"role": "tool", "tool_call_id": "x", "content": ""},
            {"role": "assistant", "content": "", "tool_calls": [call("a", "x")]},
            {"role": "tool", "tool_call_id": "x", "content": ""},
            {"role": "tool", "tool_call_id": "unknown", "content": ""},
        ]
    )
    messages: Any = with_call_ids(chat, "functions.{name}:{index}").messages
    assert [one["id"] for one in messages[0]["tool_calls"]] == ["functions.a:0", "functions.b:1"]
    assert [messages[i]["tool_call_id"] for i in (1, 2, 4, 5)] == [
        "functions.b:1",
        "functions.a:0",
        "functions.a:2",
        "unknown",
    ]
    assert with_call_ids(chat, "") == chat


def test_an_index_has_as_many_digits_as_its_pattern_wants() -> None:
    assert call_id("{index:9}", "f", 12) == "000000012"
    assert call_id("{name}.{index}", "{index}", 3) == "{index}.3"


def test_a_conversation_without_calls_is_as_it_was() -> None:
    chat = conversation(CALLS, tools=[TOOL])
    assert with_call_ids(conversation(CALLS[:1]), "{index}") == conversation(CALLS[:1])
    assert with_call_ids(chat, "{index:9}").messages[1]["tool_calls"][0]["id"] == "000000000"  # type: ignore[index]
