"""gpt-oss.

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
    <|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>

Source: openai/harmony, docs/format.md.
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.messages import Messages

HARMONY = Format(
    name="harmony",
    shape=Messages(
        start="<|start|>",
        channel="<|channel|>",
        constrain="<|constrain|>",
        message="<|message|>",
        end="<|end|>",
        call_end="<|call|>",
        last_end="<|return|>",
    ),
    templates=(("<|channel|>", "<|message|>", "to="),),
)
