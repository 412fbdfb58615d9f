"""Mistral up to version 7 of its tokenizer: one marker and a list of JSON objects.

Source: the chat template of mistralai/Mistral-7B-Instruct-v0.3.
The template wants an id of nine letters or digits.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.enveloped import EnvelopedList

MISTRAL_JSON = Format(
    name="mistral-json",
    shape=EnvelopedList(),
    triggers=("[TOOL_CALLS]",),
    forbidden=("[TOOL_RESULTS]", "[INST]", "[AVAILABLE_TOOLS]"),
    call_id="{index:9}",
    templates=(("[TOOL_CALLS]", "[TOOL_RESULTS]"),),
)
