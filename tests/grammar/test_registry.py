"""Which format a chat template speaks."""

import pytest

from dayzero.grammar.formats.registry import format_of

# As Microsoft's: tools stand in the system message, and calls are not written at all (ggml-org/llama.cpp, pull request
# 12288).
PHI = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'system' and message['tools'] %}{{ '<|tool|>' + message['tools'] + '<|/tool|>' }}"
    "{% endif %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@pytest.mark.parametrize("template", [PHI, "all calls in one list, functools[{...}, ...]"])
def test_either_template_of_a_model_tells_its_format(template: str) -> None:
    found = format_of(template)
    assert found is not None
    assert found.name == "phi-4-mini"


def test_a_template_without_tools_tells_none() -> None:
    assert format_of("{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{% endfor %}") is None
