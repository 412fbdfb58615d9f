"""GLM 4.5 to 5.

    <think>…</think>
    <tool_call>f
    <arg_key>city</arg_key>
    <arg_value>Köln</arg_value>
    </tool_call>

Later ones write no line breaks. Strings stand as they are, everything else as JSON.
Source: the chat template of zai-org/GLM-4.5 and GLM-4.6 (copies: ggml-org/llama.cpp, models/templates).
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tagged_object import Tags

GLM = Format(
    name="glm",
    triggers=("<tool_call>",),
    shape=Tagged(
        begin="",
        name_end="",
        tags=Tags(
            key_begin="<arg_key>",
            key_end="</arg_key>",
            value_begins={"<arg_value>": None, "": None},  # some leave it out under load
            value_end="</arg_value>",
            end="</tool_call>",
        ),
    ),
    reasoning=("<think>", "</think>"),
    closes_reasoning=True,
    forbidden=("<|observation|>", "<|user|>", "<tool_response>"),
    tokens=("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    templates=(("<arg_key>", "<arg_value>"),),
)
