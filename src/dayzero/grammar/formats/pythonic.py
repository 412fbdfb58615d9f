"""Llama 4, and Llama 3.2's second format: calls as Python writes them.

Source: the chat template of meta-llama/Llama-4-Scout-17B-16E-Instruct.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.pythonic import Pythonic

PYTHONIC = Format(
    name="pythonic",
    shape=Pythonic(end="<|python_end|>"),
    triggers=("<|python_start|>",),
    bare="[{",
    forbidden=("<|header_start|>",),
    template=("<|header_start|>", "func_name1(params_name1=params_value1"),
)
