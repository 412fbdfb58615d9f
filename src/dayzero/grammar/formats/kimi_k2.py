"""Kimi K2 and K2 Thinking.

    <think>…</think>
    <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>…
    <|tool_calls_section_end|>

What begins a call is its id: the name between a namespace and the number of calls before it, both of which may be
missing. A section may come before the end of reasoning, and some write its markers in the singular.
Source: the chat template of moonshotai/Kimi-K2-Thinking (a copy: ggml-org/llama.cpp, models/templates); the singular:
moonshotai/Kimi-K2, its technical report.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.named import Named

KIMI_K2 = Format(
    name="kimi-k2",
    triggers=("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    also_read=("<|tool_call_section_begin|>",),
    shape=Named(
        begin="<|tool_call_begin|>",
        separators=("<|tool_call_argument_begin|>",),
        end="<|tool_call_end|>",
        section_ends=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
        head="functions.{name}:{index}",
    ),
    reasoning=("<think>", "</think>"),
    closes_reasoning=True,
    forbidden=("<|im_user|>", "<|im_system|>"),
    call_id="functions.{name}:{index}",
    templates=(("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"),),
)
