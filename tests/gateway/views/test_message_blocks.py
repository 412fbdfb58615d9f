"""Anthropic's blocks as the messages that templates know."""

from typing import Any

import pytest

from dayzero.errors import RequestError
from dayzero.gateway.views.message_blocks import messages_of

CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Köln"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
MADE = {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln"}}}


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def of(*messages: tuple[str, Any], system: Any = None) -> list[dict[str, Any]]:
    return messages_of(system, [{"role": role, "content": content} for role, content in messages])[0]


def test_strings_and_blocks_of_text_are_the_same() -> None:
    made = of(("user", [text("hi")]), system=[text("Be brief.")])
    assert made == of(("user", "hi"), system="Be brief.")
    assert made == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]


def test_blocks_of_text_are_joined_by_line_breaks() -> None:
    assert of(("user", [text("a"), text("b")])) == [{"role": "user", "content": "a\nb"}]


def test_consecutive_messages_of_one_role_are_one_turn() -> None:
    made = of(("user", "a"), ("user", [text("b")]), ("assistant", "c"), ("assistant", "d"), ("user", "e"))
    assert [(message["role"], message["content"]) for message in made] == [
        ("user", "a\nb"),
        ("assistant", "c\nd"),
        ("user", "e"),
    ]


def test_a_call_and_its_result_keep_their_ids_and_the_name() -> None:
    made = of(("user", "?"), ("assistant", [text("Let me see."), CALL]), ("user", [RESULT, text("and?")]))
    assert made[1:] == [
        {"role": "assistant", "content": "Let me see.", "tool_calls": [MADE]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "rain", "name": "weather"},
        {"role": "user", "content": "and?"},
    ]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"content": None}, ""),
        ({"content": []}, ""),
        ({"content": [text("a"), text("b")]}, "a\nb"),
        ({"content": "no such city", "is_error": True}, "Error: no such city"),
        ({"content": "fine", "is_error": False}, "fine"),
    ],
)
def test_what_a_tool_said(result: dict[str, Any], told: str) -> None:
    made = of(("assistant", [CALL]), ("user", [{**RESULT, **result}]))
    assert made[-1]["content"] == told


def test_a_result_of_a_call_that_is_not_told_of_has_no_name() -> None:
    assert of(("user", [RESULT])) == [{"role": "tool", "tool_call_id": "toolu_1", "content": "rain"}]


def test_thoughts_of_earlier_turns_go_to_the_template_under_its_names_and_what_is_unreadable_does_not() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    made = of(("assistant", [thought, {"type": "redacted_thinking", "data": "?"}, text("ok")]), ("user", "go on"))
    assert made[0] == {"role": "assistant", "content": "ok", "reasoning": "hm", "reasoning_content": "hm"}
    alone = of(("assistant", [thought, CALL]), ("user", [RESULT]))
    assert alone[0]["thinking"] == alone[0]["reasoning_content"] == "hm"


def test_an_omitted_thought_is_none() -> None:
    made = of(("assistant", [{"type": "thinking", "thinking": "", "signature": "x"}, text("ok")]), ("user", "go on"))
    assert made[0] == {"role": "assistant", "content": "ok"}


@pytest.mark.parametrize(
    ("last", "continues"),
    [("(", True), ([text("(")], True), ("", False), ([{"type": "thinking", "thinking": "hm"}], False)],
)
def test_a_last_message_of_the_assistant_is_continued_if_it_says_something(last: Any, continues: bool) -> None:
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": last}]
    made, is_continued = messages_of(None, messages)
    assert is_continued == continues
    assert len(made) == 1 + continues


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([("user", [IMAGE])], "messages[0].content[0].type"),
        ([("user", "a"), ("user", [text("b"), CALL])], "messages[1].content[1].type"),
        ([("user", [{**RESULT, "content": [IMAGE]}])], "messages[0].content[0].content[0].type"),
        ([("user", [{"type": "tool_result"}])], "messages[0].content[0].tool_use_id"),
        ([("user", [{"type": "text"}])], "messages[0].content[0].text"),
        ([("user", [])], "messages[0].content"),
        ([("user", None)], "messages[0].content"),
        ([("user", ["a"])], "messages[0].content[0]"),
        ([("tool", "a")], "messages[0].role"),
        ([(["user"], "a")], "messages[0].role"),
        ([("assistant", [RESULT])], "messages[0].content[0].type"),
        ([("assistant", [{**CALL, "input": "x"}])], "messages[0].content[0].input"),
        ([("assistant", [{**CALL, "id": 1}])], "messages[0].content[0].id"),
        ([("assistant", [{**CALL, "name": None}])], "messages[0].content[0].name"),
        ([("user", "?"), ("assistant", [CALL])], "messages"),
    ],
)
def test_what_cannot_be_said_is_named(messages: list[tuple[str, Any]], place: str) -> None:
    with pytest.raises(RequestError) as raised:
        of(*messages)
    assert raised.value.param == place
