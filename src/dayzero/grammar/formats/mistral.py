"""Mistral since version 11 of its tokenizer: a marker, a name and an object for each call.

Source: the chat template of mistralai/Devstral-Small-2507, and mistral-common.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.named import Named

MISTRAL = Format(
    name="mistral",
    shape=Named(separators=("[ARGS]",)),
    triggers=("[TOOL_CALLS]",),
    reasoning=("[THINK]", "[/THINK]"),
    forbidden=("[TOOL_RESULTS]", "[INST]", "[AVAILABLE_TOOLS]"),
    call_id="{index:9}",
    templates=(("[TOOL_CALLS]", "[ARGS]"),),
)
