"""Llama 3.1 and 3.2: a JSON object as the whole answer.

Source: the chat template of meta-llama/Llama-3.1-8B-Instruct.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.enveloped import BareEnvelopes

LLAMA3_JSON = Format(
    name="llama3-json",
    shape=BareEnvelopes(),
    triggers=("<|python_tag|>",),
    bare="{",
    forbidden=("<|start_header_id|>",),
    templates=(("<|start_header_id|>", '"parameters"'),),
)
