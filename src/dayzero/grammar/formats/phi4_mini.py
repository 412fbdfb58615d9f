"""Phi-4-mini.

    functools[{"name": "f", "arguments": {…}}, …]

Source: vllm-project/vllm, examples/tool_chat_template_phi4_mini.jinja, and microsoft/Foundry-Local,
samples/python/functioncalling.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.enveloped import EnvelopedList

PHI4_MINI = Format(
    name="phi-4-mini",
    triggers=("functools",),
    shape=EnvelopedList(),
    forbidden=("<|user|>", "<|tool_response|>"),
    template=("functools",),
)
