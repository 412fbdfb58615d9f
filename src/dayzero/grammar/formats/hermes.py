"""Hermes, Qwen 2.5 and Qwen 3: JSON between two markers.

Source: the chat templates of NousResearch/Hermes-3-Llama-3.1-8B and Qwen/Qwen3-8B.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.enveloped import Enveloped

HERMES = Format(
    name="hermes",
    shape=Enveloped(end="</tool_call>"),
    triggers=("<tool_call>",),
    reasoning=("<think>", "</think>"),
    forbidden=("<tool_response>", "</tool_response>", "<|im_start|>"),
    templates=(("<tool_call>", '"arguments"'),),
)
