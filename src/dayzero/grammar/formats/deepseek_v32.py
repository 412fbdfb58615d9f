"""DeepSeek V3.2.

    <think>…</think>

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="f">
    <｜DSML｜parameter name="city" string="true">Köln</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

A value that is no string is JSON; the model says which it is. Instead of parameters, one JSON object of all arguments
may stand there.
Source: the chat template of DeepSeek V3.2 in ggml-org/llama.cpp, models/templates/DeepSeek-V3.2.jinja; the object:
smg-project/smg, crates/tool_parser.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.tagged_object import Tags

DEEPSEEK_V32 = Format(
    name="deepseek-v3.2",
    triggers=("<｜DSML｜function_calls>",),
    shape=Tagged(
        begin='<｜DSML｜invoke name="',
        name_end='">',
        tags=Tags(
            key_begin='<｜DSML｜parameter name="',
            key_end='"',
            value_begins={'string="true">': True, 'string="false">': False, ">": None},
            value_end="</｜DSML｜parameter>",
            end="</｜DSML｜invoke>",
        ),
        section_end="</｜DSML｜function_calls>",
        takes_json=True,
    ),
    reasoning=("<think>", "</think>"),
    forbidden=("<｜User｜>", "<function_results>"),
    tokens=("｜DSML｜",),
    templates=(("｜DSML｜", "function_calls>"),),
)
