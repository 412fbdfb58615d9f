"""Phi-4-mini.

    <|tool_call|>[{"name": "f", "arguments": {…}}, …]<|/tool_call|>
    functools[{"name": "f", "arguments": {…}}, …]

The first is what the model card says, though the end is often missing; the second, which some templates ask for, has
none.
Source: the model card and the chat template of microsoft/Phi-4-mini-instruct (a copy: ggml-org/llama.cpp, pull request
12288), which has tools from the system message alone; ShishirPatil/gorilla,
berkeley-function-call-leaderboard, local_inference/phi_fc.py; vllm-project/vllm,
examples/tool_chat_template_phi4_mini.jinja, and microsoft/Foundry-Local, samples/python/functioncalling.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.enveloped import EnvelopedList

PHI4_MINI = Format(
    name="phi-4-mini",
    triggers=("<|tool_call|>", "functools"),
    shape=EnvelopedList(end="<|/tool_call|>"),
    forbidden=("<|user|>", "<|tool|>", "<|tool_response|>"),
    templates=(("functools",), ("<|tool|>", "<|/tool|>")),
)
