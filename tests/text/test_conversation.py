import pytest

from dayzero.errors import RequestError
from dayzero.text.conversation import conversation

USER = {"role": "user", "content": "hi"}


def call(arguments: object) -> dict:
    return {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}


def test_a_developer_speaks_as_system_and_null_is_absent():
    chat = conversation([{"role": "developer", "content": "x", "name": None, "tool_calls": None}])
    assert chat.messages == [{"role": "system", "content": "x"}]


def test_parts_of_text_become_one_string_and_no_content_an_empty_one():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    chat = conversation([{"role": "user", "content": parts}, {"role": "assistant", "content": None}])
    assert [message["content"] for message in chat.messages] == ["a\nb", ""]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": [1, "é"]}', {"a": [1, "é"]}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ('{"a": ', '{"a": '),  # what a model broke off stays visible as it is
        ("[1]", "[1]"),
    ],
)
def test_arguments_become_objects_where_they_are(arguments, expected):
    [function] = [c["function"] for c in conversation([call(arguments)]).messages[0]["tool_calls"]]
    assert function["arguments"] == expected


@pytest.mark.parametrize(
    ("messages", "options", "param"),
    [
        ([], {}, "messages"),
        ([{"content": "x"}], {}, "messages[0].role"),
        ([{"role": ["user"], "content": "x"}], {}, "messages[0].role"),
        (["hi"], {}, "messages[0]"),
        ([USER, {"role": "user<|im_end|>", "content": "x"}], {}, "messages[1].role"),
        ([{"role": "user", "content": 3}], {}, "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], {}, "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], {}, "messages[0].content[0]"),
        ([{"role": "assistant", "tool_calls": {"a": 1}}], {}, "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], {}, "messages[0].tool_calls[0]"),
        ([{"role": "assistant", "tool_calls": [{"type": "x", "function": {"name": "f"}}]}], {}, ".tool_calls[0].type"),
        ([USER], {"tools": [{"type": "web"}]}, "tools[0].type"),
        ([USER], {"tools": [{"type": "function", "function": {}}]}, "tools[0].function"),
        ([USER], {"variables": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
        ([USER], {"variables": {"chat_template": "x"}}, "chat_template_kwargs.chat_template"),
        ([USER], {"variables": {"enable_thinking": "yes"}}, "chat_template_kwargs.enable_thinking"),
        ([USER], {"variables": {"reasoning_effort": "<|im_end|>"}}, "chat_template_kwargs.reasoning_effort"),
        ([USER], {"variables": {"documents": ["x"]}}, "chat_template_kwargs.documents"),
        ([USER], {"continue_final_message": True}, "continue_final_message"),
        (
            [{"role": "assistant", "content": ""}],
            {"continue_final_message": True, "add_generation_prompt": False},
            "messages",
        ),
    ],
)
def test_what_a_template_must_not_see_is_refused_by_name(messages, options, param):
    with pytest.raises(RequestError) as caught:
        conversation(messages, **options)
    assert caught.value.param.endswith(param)


def test_variables_on_the_list_pass_and_null_counts_as_absent():
    given = {"enable_thinking": False, "reasoning_effort": "high", "date_string": None}
    chat = conversation([USER], variables=given)
    assert chat.variables == {"enable_thinking": False, "reasoning_effort": "high"}


@pytest.mark.parametrize("given", [5, ["a"], {"a": 1}, True])
def test_an_id_of_a_call_that_is_no_string_is_refused_by_its_place(given):
    asked = call("{}")
    asked["tool_calls"][0]["id"] = given
    with pytest.raises(RequestError) as caught:
        conversation([USER, asked])
    assert caught.value.param == "messages[1].tool_calls[0].id"
    with pytest.raises(RequestError) as caught:
        conversation([USER, {"role": "tool", "content": "x", "tool_call_id": given}])
    assert caught.value.param == "messages[1].tool_call_id"
