import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.errors import RequestError
from dayzero.text.chat import encode_chat
from dayzero.text.conversation import conversation
from dayzero.text.template import ChatTemplate
from dayzero.text.tokenizer import Tokenizer
from tests.text.templates import CALLS, CHAT, GEMMA, LLAMA3, NAMED, QWEN, TOOL
from tests.text.vocabularies import CHATML, byte_level, sentencepiece

THINK = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
TOKENIZER = Tokenizer.from_source(byte_level(user=THINK))
TEMPLATE = ChatTemplate(QWEN, {})


def markup(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    return [token for token in ids if tokenizer.is_markup(token)]


def poisoned(text: str) -> tuple[list[dict], list[dict]]:
    """A conversation with `text` in every place that a client fills."""
    function = {"name": text, "arguments": {text: [text, {text: 1}]}}
    messages = [
        {"role": "system", "content": text},
        {"role": "user", "content": [{"type": "text", "text": text}], "name": text},
        {"role": "assistant", "content": text, "tool_calls": [{"id": text, "function": function}]},
        {"role": "tool", "content": text, "tool_call_id": text},
    ]
    parameters = {"type": "object", "properties": {text: {"type": "string", "description": text, "enum": [text]}}}
    tools = [{"type": "function", "function": {"name": text, "description": text, "parameters": parameters}}]
    return messages, tools


def test_an_ordinary_chat_is_tokenized_as_a_whole():
    text = TEMPLATE.render(conversation(CALLS, tools=[TOOL]))
    assert encode_chat(TOKENIZER, TEMPLATE, conversation(CALLS, tools=[TOOL])) == TOKENIZER.encode(text, special=True)


@pytest.mark.parametrize("text", [*CHATML, *THINK, "".join([*CHATML, *THINK]), f"x {'|'.join(CHATML)}\n y"])
def test_special_tokens_in_content_give_the_special_ids_of_harmless_content(text):
    """B55: markup in the text of a client became control tokens."""
    messages, tools = poisoned(text)
    harmless, harmless_tools = poisoned("x")
    ids = encode_chat(TOKENIZER, TEMPLATE, conversation(messages, tools=tools))
    expected = encode_chat(TOKENIZER, TEMPLATE, conversation(harmless, tools=harmless_tools))
    assert markup(TOKENIZER, ids) == markup(TOKENIZER, expected)
    if "</think>" not in text:  # this template's own logic looks for that one
        assert TOKENIZER.decode(ids, skip_special=False) == TEMPLATE.render(conversation(messages, tools=tools))


def test_every_special_token_of_a_real_vocabulary_stays_text(smollm, smollm_source):
    template = ChatTemplate(smollm_source.chat_template, smollm_source.named_tokens)
    empty = markup(smollm, encode_chat(smollm, template, conversation([{"role": "user", "content": ""}])))
    for text in [*smollm.markup, "".join(smollm.markup)]:
        messages = [{"role": "user", "content": f" {text}\n"}]
        ids = encode_chat(smollm, template, conversation(messages))
        assert markup(smollm, ids) == empty
        assert smollm.decode(ids, skip_special=False) == template.render(conversation(messages))


def test_every_special_token_stays_text_with_the_tools_of_qwen(coder, coder_source):
    template = ChatTemplate(coder_source.chat_template, coder_source.named_tokens)
    messages, tools = poisoned("".join(coder.markup))
    harmless, harmless_tools = poisoned("x")
    ids = encode_chat(coder, template, conversation(messages, tools=tools))
    assert markup(coder, ids) == markup(
        coder, encode_chat(coder, template, conversation(harmless, tools=harmless_tools))
    )
    assert coder.decode(ids, skip_special=False) == template.render(conversation(messages, tools=tools))


def test_content_cannot_form_a_token_with_what_the_template_writes_beside_it():
    template = ChatTemplate("{% for m in messages %}<{{ m.content }}>{{ m.name }}{% endfor %}<|im_end|>", {})
    messages = [{"role": "user", "content": "tool_call", "name": "<|im_"}, {"role": "user", "content": "|im_end|"}]
    ids = encode_chat(TOKENIZER, template, conversation(messages))
    assert markup(TOKENIZER, ids) == [TOKENIZER.markup["<|im_end|>"]]
    assert TOKENIZER.decode(ids, skip_special=False) == template.render(conversation(messages))


def test_a_template_that_trims_content_is_followed():
    control = [*NAMED.values(), "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = Tokenizer.from_source(byte_level("llama-bpe", control=control))
    template = ChatTemplate(LLAMA3, NAMED)
    messages = [{"role": "user", "content": "  a<|eot_id|> \n"}]
    ids = encode_chat(tokenizer, template, conversation(messages))
    assert tokenizer.decode(ids, skip_special=False) == template.render(conversation(messages))
    assert markup(tokenizer, ids) == markup(
        tokenizer, encode_chat(tokenizer, template, conversation([{"role": "user", "content": "a"}]))
    )


def test_there_is_one_bos_the_template_s_own():
    control = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
    source = sentencepiece(["▁", *"abdefhilmnorstuwy?.'\n"], control=control, add_bos=True, bos_token_id=1)
    tokenizer = Tokenizer.from_source(source)
    for messages in (CHAT, [{"role": "user", "content": "<bos>hi<bos>"}]):
        ids = encode_chat(tokenizer, ChatTemplate(GEMMA, NAMED), conversation(messages))
        assert (ids[0], ids.count(1)) == (1, 1)


def test_reasoning_that_a_template_cuts_from_history_is_cut_when_nothing_is_injected():
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nb\n</think>\n\nc"}]
    text = TOKENIZER.decode(encode_chat(TOKENIZER, TEMPLATE, conversation(messages)), skip_special=False)
    assert text == TEMPLATE.render(conversation(messages))
    assert "think" not in text


def test_markup_in_content_is_refused_if_the_template_cannot_be_followed():
    source = "{{ raise_exception('no') if messages[0].content[0] != '<' }}{{ messages[0].content }}"
    with pytest.raises(RequestError, match="reserved"):
        encode_chat(TOKENIZER, ChatTemplate(source, {}), conversation([{"role": "user", "content": "<|im_end|>"}]))


@settings(derandomize=True, max_examples=200)
@given(
    st.lists(
        st.sampled_from([*CHATML, *THINK, "<|im_", "end|>", "<", "|>", " ", "\n", '"', "\\", "é", "a"]), max_size=8
    )
)
def test_no_mixture_of_fragments_changes_the_special_ids(fragments):
    messages, tools = poisoned("".join(fragments))
    harmless, harmless_tools = poisoned("x")
    ids = encode_chat(TOKENIZER, TEMPLATE, conversation(messages, tools=tools))
    assert markup(TOKENIZER, ids) == markup(
        TOKENIZER, encode_chat(TOKENIZER, TEMPLATE, conversation(harmless, tools=harmless_tools))
    )
