import json

import pytest

from dayzero.errors import CheckpointError, RequestError
from dayzero.text.conversation import conversation
from dayzero.text.template import ChatTemplate
from dayzero.text.veil import Veil
from tests.text.templates import CALLS, CHAT, GEMMA, LLAMA3, NAMED, QWEN, TOOL

HELLO = [{"role": "user", "content": "hello"}]


def oracle(template: str, messages: list[dict], **options) -> str:
    """What the reference implementation renders."""
    utilities = pytest.importorskip("transformers.utils.chat_template_utils")
    [text], _ = utilities.render_jinja_template([messages], chat_template=template, **options)
    return text


@pytest.mark.parametrize("template", [LLAMA3, GEMMA, QWEN], ids=["llama3", "gemma", "qwen"])
@pytest.mark.parametrize("prompt", [True, False])
def test_a_chat_renders_as_in_transformers(template, prompt):
    expected = oracle(template, CHAT, add_generation_prompt=prompt, **NAMED)
    assert ChatTemplate(template, NAMED).render(conversation(CHAT, add_generation_prompt=prompt)) == expected


def test_tools_and_calls_render_as_in_transformers():
    expected = oracle(QWEN, CALLS, tools=[TOOL], add_generation_prompt=True, enable_thinking=False)
    assert (
        ChatTemplate(QWEN, {}).render(conversation(CALLS, tools=[TOOL], variables={"enable_thinking": False}))
        == expected
    )
    assert 'of a \\"place\\" <b>&é' in expected


# As Phi-4-mini's: tools are a string of a system message.
IN_MESSAGE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if 'tools' in message and message['tools'] is not none %}<|tool|>{{ message['tools'] }}<|/tool|>{% endif %}"
    "{% endfor %}"
)


def test_tools_go_into_a_system_message_where_a_template_looks_for_them_there():
    template, wanted = ChatTemplate(IN_MESSAGE, {}), json.dumps([TOOL["function"]], ensure_ascii=False)
    system = {"role": "system", "content": "Be brief."}
    assert template.render(conversation([system, *HELLO], tools=[TOOL])) == (
        f"<|system|>Be brief.<|tool|>{wanted}<|/tool|><|user|>hello"
    )
    assert template.render(conversation(HELLO, tools=[TOOL])) == f"<|system|><|tool|>{wanted}<|/tool|><|user|>hello"
    assert template.render(conversation(HELLO)) == "<|user|>hello"


@pytest.mark.parametrize("loop", ["{% for tool in message.tools %}{{ tool.name }}{% endfor %}", "{{ tools }}"])
def test_a_template_that_looks_for_a_list_gets_no_string_of_tools(loop):
    template = ChatTemplate("{% for message in messages %}{{ message['tools'] }}|" + loop + "{% endfor %}", {})
    assert template.render(conversation(HELLO, tools=[TOOL])).startswith("|")


def test_the_real_smollm_template_adds_its_own_system_message(smollm_source):
    template = ChatTemplate(smollm_source.chat_template, smollm_source.named_tokens)
    assert template.render(conversation(HELLO)).startswith(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM"
    )
    for messages in (HELLO, CHAT):
        expected = oracle(smollm_source.chat_template, messages, add_generation_prompt=True)
        assert template.render(conversation(messages)) == expected


def test_the_real_qwen_template_renders_as_in_transformers(coder_source):
    template = ChatTemplate(coder_source.chat_template, coder_source.named_tokens)
    for messages, tools in ((CHAT, None), (CALLS, [TOOL])):
        expected = oracle(coder_source.chat_template, messages, tools=tools, add_generation_prompt=True)
        assert template.render(conversation(messages, tools=tools)) == expected


@pytest.mark.parametrize("template", [LLAMA3, QWEN], ids=["trims", "keeps"])
@pytest.mark.parametrize("content", ["The answer", "The answer is "])
def test_a_continued_message_ends_where_its_content_does(template, content):
    messages = [*HELLO, {"role": "assistant", "content": content}]
    options = {"add_generation_prompt": False, "continue_final_message": True}
    text = ChatTemplate(template, NAMED).render(conversation(messages, **options))
    assert text == oracle(template, messages, **options, **NAMED)
    assert text.endswith(content.strip() if template is LLAMA3 else content)


def test_a_template_that_hides_the_final_message_cannot_continue_it():
    with pytest.raises(RequestError, match="does not show the final message"):
        ChatTemplate("x", {}).render(conversation(HELLO, add_generation_prompt=False, continue_final_message=True))


def test_what_the_template_says_reaches_the_client():
    """B54: what a template refuses was an error of the server."""
    with pytest.raises(RequestError, match=r"^roles must alternate$"):
        ChatTemplate(GEMMA, NAMED).render(conversation(HELLO + HELLO))


@pytest.mark.parametrize(
    "source",
    ["{{ messages[0].content.x.y }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ {}['a'].b }}", "{{ ''.__class__.x }}"],
)
def test_a_template_that_fails_is_a_refused_request(source):
    with pytest.raises(RequestError, match="chat template failed"):
        ChatTemplate(source, {}).render(conversation(HELLO))


def test_a_rendering_larger_than_any_prompt_is_refused():
    source = "{% for i in range(99999) %}{{ 'a' * 100 }}{% endfor %}"
    with pytest.raises(RequestError, match="rendering too long"):
        ChatTemplate(source, {}).render(conversation(HELLO))


@pytest.mark.parametrize("source", ["{% if %}", "{{ x", "{% include 'a' %}{% nope %}", "x" * 1_000_001])
def test_what_is_no_template_is_refused_at_load(source):
    with pytest.raises(CheckpointError, match="chat template"):
        ChatTemplate(source, {})


def test_templates_cannot_reach_files():
    with pytest.raises(RequestError, match="chat template failed"):
        ChatTemplate("{% include '/etc/passwd' %}", {}).render(conversation(HELLO))


def test_a_veiled_rendering_shows_only_what_the_template_wrote():
    veil = Veil("helo")
    rendering = ChatTemplate(QWEN, {}).render_veiled(conversation(HELLO), veil)
    assert rendering.text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert rendering.veiled.count("hello") == 0
    assert veil.lift(rendering.veiled) == rendering.text


def test_a_template_that_fails_on_veiled_text_gives_an_empty_veiled_rendering():
    source = "{% if messages[0].content != 'hello' %}{{ raise_exception('no') }}{% endif %}x"
    rendering = ChatTemplate(source, {}).render_veiled(conversation(HELLO), Veil("helo"))
    assert (rendering.text, rendering.veiled) == ("x", "")
