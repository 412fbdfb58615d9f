"""How many tokens a client waits for the next of a long argument while the model writes it. Pure counting."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayzero.checkpoint.open import open_checkpoint
from dayzero.core.events import TokenEvent
from dayzero.gateway.reading import Reading
from dayzero.gateway.stream import ChoiceStream, StreamRules
from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parts import CallArguments
from dayzero.grammar.tools import Tool
from dayzero.text.tokenizer import Tokenizer
from tests.grammar.written import Call, written

ARGUMENT_BYTES = 16 * 1024
VALUES = {
    "words": "word after word " * (ARGUMENT_BYTES // 16),
    "lines": "first\nsecond\n\n    third\n" * (ARGUMENT_BYTES // 24),
    "escapes": 'say "hi" \\ and\ttab\n' * (ARGUMENT_BYTES // 20),
}
# A line break may be the one before a closing tag, and a backslash begins an escape that Python writes otherwise.
TWO_TOKENS = {("qwen3-coder", "lines"), ("qwen3-coder", "escapes"), ("pythonic", "lines"), ("pythonic", "escapes")}
TOOL = Tool("write", {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}})


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer.from_source(open_checkpoint(smollm2).tokenizer)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", FORMATS)
def test_every_token_of_a_long_argument_is_heard_at_once(name: str, value: str, tokenizer: Tokenizer) -> None:
    output, shown = output_of(FORMATS[name], VALUES[value])
    tokens = tokenizer.encode(output, special=False)
    begin = output.encode().index(shown.encode())
    inside = [
        i for i, (start, end) in enumerate(spans(tokens, tokenizer)) if begin <= start and end <= begin + len(shown)
    ]
    heard = [i for i in heard_at(tokens, FORMATS[name], tokenizer) if inside[0] <= i <= inside[-1]]
    longest = max(after - before for before, after in itertools.pairwise(heard))
    assert longest == (2 if (name, value) in TWO_TOKENS else 1)
    assert heard[0] == inside[0]


def output_of(form: Format, content: str) -> tuple[str, str]:
    """A call with a long argument, and how that is spelled in it."""
    arguments = {"path": "a.txt", "content": content}
    escaped = json.dumps(content)[1:-1]
    match form.name:
        case "harmony":
            head = "<|channel|>commentary to=functions.write <|constrain|>json<|message|>"
            return f"{head}{json.dumps(arguments)}<|call|>", escaped
        case "gemma-4":
            mark = '<|"|>'
            pairs = ",".join(f"{key}:{mark}{value}{mark}" for key, value in arguments.items())
            return f"<|tool_call>call:write{{{pairs}}}<tool_call|>", content
        case _:
            output = written(form, [Call("write", arguments)])
            return output, escaped if escaped in output else content


def spans(tokens: list[int], tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """Where the bytes of each token start and end."""
    start = 0
    for token in tokens:
        end = start + len(tokenizer.token_bytes(token))
        yield start, end
        start = end


def heard_at(tokens: list[int], form: Format, tokenizer: Tokenizer) -> Iterator[int]:
    """The tokens that bring a stretch of arguments."""
    reading = Reading(format=form, tools=(TOOL,), calls="parse", parallel=True, starts_in_reasoning=False, marker_of={})
    stream = ChoiceStream(0, tokenizer, StreamRules(reading=reading))
    for i, token in enumerate(tokens):
        delta = stream.push(TokenEvent(0, [token]))
        if delta is not None and any(isinstance(part, CallArguments) for part in delta.parts):
            yield i
