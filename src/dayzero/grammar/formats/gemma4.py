"""Gemma 4.

    <|channel>thought
    …<channel|><|tool_call>call:f{city:<|"|>Köln<|"|>,days:2}<tool_call|>

Source: the chat template of google/gemma-4 (a copy: ggml-org/llama.cpp, models/templates/gemma4.jinja).
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.gemma import Noted

GEMMA4 = Format(
    name="gemma-4",
    triggers=("<|tool_call>",),
    shape=Noted(end="<tool_call|>"),
    reasoning=("<|channel>thought\n", "<channel|>"),
    forbidden=("<|turn>", "<|tool_response>"),
    tokens=("<|channel>",),
    templates=(("<|tool_call>call:", "<tool_call|>"),),
)
