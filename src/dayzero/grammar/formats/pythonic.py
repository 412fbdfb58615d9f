"""Llama 4, and Llama 3.2's second format: calls as Python writes them.

The turns of others begin with a token of its own in each of the families that write so: Llama 4, Llama 3 and ChatML.
Source: the chat templates of meta-llama/Llama-4-Scout-17B-16E-Instruct, meta-llama/Llama-3.2-3B-Instruct and
allenai/Olmo-3-7B-Instruct.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.pythonic import Pythonic

PYTHONIC = Format(
    name="pythonic",
    shape=Pythonic(end="<|python_end|>"),
    triggers=("<|python_start|>",),
    bare="[{",
    forbidden=("<|header_start|>", "<|start_header_id|>", "<|im_start|>"),
    templates=(("<|header_start|>", "func_name1(params_name1=params_value1"),),
)
