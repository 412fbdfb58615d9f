"""Qwen3-Coder and Qwen 3.5: each argument between tags of its own.

Source: the chat template of Qwen/Qwen3-Coder-30B-A3B-Instruct.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tagged_object import Tags

QWEN3_CODER = Format(
    name="qwen3-coder",
    shape=Tagged(
        begin="<function=",
        name_end=">",
        tags=Tags(
            key_begin="<parameter=",
            key_end=">",
            value_begins={"": None},
            value_end="</parameter>",
            end="</function>",
            has_own_lines=True,
        ),
        section_end="</tool_call>",
    ),
    triggers=("<tool_call>",),
    reasoning=("<think>", "</think>"),
    closes_reasoning=True,
    forbidden=("<tool_response>", "</tool_response>", "<|im_start|>"),
    templates=(("<function=", "<parameter="),),
)
