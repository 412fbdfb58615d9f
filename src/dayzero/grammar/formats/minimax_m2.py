"""MiniMax M2.

    <think>
    …
    </think>

    <minimax:tool_call>
    <invoke name="f">
    <parameter name="city">Köln</parameter>
    </invoke>
    </minimax:tool_call>

Source: the chat template of MiniMaxAI/MiniMax-M2 (a copy: ggml-org/llama.cpp, models/templates).
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tagged_object import Tags

MINIMAX_M2 = Format(
    name="minimax-m2",
    triggers=("<minimax:tool_call>",),
    shape=Tagged(
        begin='<invoke name="',
        name_end='">',
        tags=Tags(
            key_begin='<parameter name="',
            key_end='">',
            value_begins={"": None},
            value_end="</parameter>",
            end="</invoke>",
        ),
        section_end="</minimax:tool_call>",
    ),
    reasoning=("<think>", "</think>"),
    forbidden=("]~b]",),
    templates=(("<minimax:tool_call>", "<invoke name="),),
)
