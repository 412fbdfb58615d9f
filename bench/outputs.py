"""What models write, for benches of what reads it: an answer, thoughts before one, a call with a long argument."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dayzero.grammar.format import Format
from dayzero.grammar.formats.hermes import HERMES
from dayzero.grammar.formats.qwen3_coder import QWEN3_CODER
from dayzero.workshop.fidelity.passages import Text, bundled

ARGUMENT_CHARS = 16 * 1024
TOOLS: Sequence[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path", "content"],
            },
        },
    }
]


@dataclass(frozen=True, slots=True)
class Output:
    """`format` None: it is read as plain text."""

    name: str
    format: Format | None
    text: str


def outputs() -> list[Output]:
    """English of MT-Bench, and programs of HumanEval as the argument, without characters of several tokens."""
    texts = [Text(text.name, text.content.encode("ascii", "ignore").decode()) for text in bundled()]
    prose = "\n\n".join(text.content for text in texts if text.name.startswith("mtbench"))[: ARGUMENT_CHARS // 2]
    code = "\n".join(text.content for text in texts if text.name.startswith("humaneval"))[:ARGUMENT_CHARS]
    arguments = {"path": "programs.py", "content": code}
    call = json.dumps({"name": "write_file", "arguments": arguments}, ensure_ascii=False)
    parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items())
    return [
        Output("plain text", None, prose),
        Output("text of a model that calls", HERMES, prose),
        Output("reasoning, then text", HERMES, f"<think>\n{prose}\n</think>\n\n{prose}"),
        Output("a call of 16 KiB, hermes", HERMES, f"<tool_call>\n{call}\n</tool_call>"),
        Output(
            "a call of 16 KiB, qwen3-coder",
            QWEN3_CODER,
            f"<tool_call>\n<function=write_file>\n{parameters}</function>\n</tool_call>",
        ),
    ]
