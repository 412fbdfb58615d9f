"""DeepSeek V3.1: a section of calls, each a name and an object.

Source: the chat template of deepseek-ai/DeepSeek-V3.1.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.named import Named

DEEPSEEK_V31 = Format(
    name="deepseek-v3.1",
    shape=Named(
        begin="<｜tool▁call▁begin｜>",
        separators=("<｜tool▁sep｜>",),
        end="<｜tool▁call▁end｜>",
        section_ends=("<｜tool▁calls▁end｜>",),
    ),
    triggers=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    reasoning=("<think>", "</think>"),
    forbidden=("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>", "<｜User｜>"),
    templates=(("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"),),
)
