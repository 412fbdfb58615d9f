"""Items of a Responses request, and the messages that they are to a template."""

from typing import Any

import pytest

from dayzero.errors import RequestError
from dayzero.gateway.views.responses_input import items_of, messages_of

USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Köln"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "ok", "annotations": []}]}


def messages(*items: dict[str, Any], instructions: str | None = None) -> list[dict[str, Any]]:
    return messages_of(items_of(items), instructions)


def test_a_text_is_what_a_user_says() -> None:
    assert messages_of(items_of("hi"), None) == [{"role": "user", "content": "hi"}]


def test_a_turn_of_the_model_is_one_message() -> None:
    function = {"name": "weather", "arguments": '{"city": "Köln"}'}
    assert messages(USER, THOUGHT, SAID, CALL, OUTPUT, SAID) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "reasoning": "hm",
            "reasoning_content": "hm",
            "content": "ok",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "rain"},
        {"role": "assistant", "content": "ok"},
    ]


def test_calls_at_one_time_are_of_one_message_and_what_is_said_after_them_is_another() -> None:
    found = messages(USER, CALL, {**CALL, "call_id": "call_2"}, SAID, THOUGHT, CALL)
    assert [len(message.get("tool_calls", ())) for message in found] == [0, 2, 0, 1]
    assert [message.get("content") for message in found] == ["hi", None, "ok", None]
    assert found[3]["reasoning"] == "hm"


def test_instructions_and_system_messages_at_the_beginning_are_one_message() -> None:
    first, second = {"role": "system", "content": "b"}, {"role": "developer", "content": "c"}
    assert messages(first, second, USER, second, instructions="a") == [
        {"role": "system", "content": "a\n\nb\n\nc"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "c"},
    ]


def test_parts_are_joined_by_line_breaks_and_a_refusal_is_what_the_model_said() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    found = messages({"role": "user", "content": parts}, refusal, {**OUTPUT, "output": parts})
    assert [message["content"] for message in found] == ["a\nb", "no", "a\nb"]


def test_reasoning_that_says_nothing_here_is_left_out() -> None:
    encrypted = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "x"}
    assert messages(USER, encrypted) == [{"role": "user", "content": "hi"}]


def test_items_have_one_form_which_is_a_form_of_input_too() -> None:
    found = items_of([USER, THOUGHT, SAID, CALL, OUTPUT])
    assert items_of(found) == found
    assert [item["type"] for item in found] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert len({item["id"] for item in found}) == len(found)


def test_an_id_of_the_clients_stays_if_it_is_plain() -> None:
    plain, odd = items_of([{**USER, "id": "msg_7"}, {**USER, "id": "<b>" * 9}])
    assert plain["id"] == "msg_7"
    assert odd["id"].startswith("msg_")


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ("hi", "input[1]"),
        (None, "input[1]"),
        ({"type": "item_reference", "id": "msg_1"}, "input[1].type"),
        ({"type": "computer_call"}, "input[1].type"),
        ({"type": 7}, "input[1].type"),
        ({"type": ["message"]}, "input[1].type"),
        ({"role": "tool", "content": "x"}, "input[1].role"),
        ({"role": ["user"], "content": "x"}, "input[1].role"),
        ({"role": "user"}, "input[1].content"),
        ({"role": "user", "content": 7}, "input[1].content"),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}, "input[1].content[0]"),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}, "input[1].content[0]"),
        ({"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}, "input[1].content[0]"),
        ({**CALL, "name": "a b"}, "input[1].name"),
        ({**CALL, "arguments": {"city": "x"}}, "input[1].arguments"),
        ({**CALL, "call_id": ""}, "input[1].call_id"),
        ({**OUTPUT, "call_id": None}, "input[1].call_id"),
        ({**OUTPUT, "output": {"a": 1}}, "input[1].output"),
        ({**THOUGHT, "content": "hm"}, "input[1]"),
        ({**THOUGHT, "content": [{"type": "reasoning_text"}]}, "input[1]"),
        ({**THOUGHT, "summary": [7]}, "input[1]"),
    ],
)
def test_what_is_no_item_is_named_by_its_place(item: Any, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        items_of([USER, item])
    assert caught.value.param == param


def test_no_items_are_refused() -> None:
    with pytest.raises(RequestError, match="no items"):
        items_of([])
