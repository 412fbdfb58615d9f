"""Where an output begins: what the end of its prompt says of it."""

import pytest

from dayzero.gateway.reading import Reader, Reading
from dayzero.gateway.tools import ToolUse
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import byte_tokenizer

WITH_TOKENS, WITHOUT = byte_tokenizer(("<think>", "</think>")), byte_tokenizer()


@pytest.mark.parametrize(
    ("name", "prompt", "starts"),
    [
        ("hermes", "<|im_start|>assistant\n", False),
        ("hermes", "<|im_start|>assistant\n<think>\n", True),
        ("hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("deepseek-v3", "<｜Assistant｜><think>", True),  # noqa: RUF001 - the model's own letters
        ("deepseek-v3", "<｜Assistant｜></think>", False),  # noqa: RUF001
        ("gemma-4", "<tool_response|>", False),
        ("gemma-4", "<tool_response|><|channel>thought\n", True),
        ("mistral-json", "[/INST]", False),
    ],
)
def test_an_output_begins_in_reasoning_only_where_its_prompt_opens_it(name: str, prompt: str, starts: bool) -> None:
    """B35: a flag said that a model thinks, though its template had ended that. B36: a result came between."""
    tokenizer = byte_tokenizer(FORMATS[name].markers)
    reading = Reader(FORMATS[name], tokenizer).reading(ToolUse(), tokenizer.encode(prompt, special=True))
    assert reading is not None
    assert reading.starts_in_reasoning is starts


def reading(prompt: str, *, has_tokens: bool) -> Reading:
    tokenizer = WITH_TOKENS if has_tokens else WITHOUT
    found = Reader(FORMATS["hermes"], tokenizer).reading(ToolUse(), tokenizer.encode(prompt, special=True))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("prompt", "has_tokens", "may_think"),
    [
        ("hi", True, True),
        ("hi", False, False),
        ("hi<think>", True, True),
        ("hi<think>", False, True),
        ("<think>\n\n</think>\n\n", True, False),
        ("<think>\n\n</think>\n\n", False, False),
    ],
)
def test_a_grammar_has_thoughts_where_the_model_would_begin_them(
    prompt: str, has_tokens: bool, may_think: bool
) -> None:
    found = reading(prompt, has_tokens=has_tokens)
    assert found.may_think is may_think
    assert (found.bound_format.reasoning is not None) is may_think
    assert found.format.reasoning is not None  # however it comes, it is read


def test_without_a_format_an_output_is_text() -> None:
    assert Reader(None, WITHOUT).reading(ToolUse(), [1]) is None
