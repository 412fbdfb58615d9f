"""Texts to passages: token ids of a bounded length, each with the document that it was cut from.

A document is the unit of resampling, because its tokens are no independent samples; so passages of one keep its name.
"""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dayzero.errors import ConfigError
from dayzero.text.tokenizer import Tokenizer
from dayzero.workshop.bench.workloads.dataset import Question, read_rows


@dataclass(frozen=True, slots=True)
class Text:
    """One document."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Passage:
    """What a model sees at once, from position 0."""

    document: str
    tokens: tuple[int, ...]


class _Program(msgspec.Struct):
    prompt: str
    canonical_solution: str
    test: str


class _Line(msgspec.Struct):
    content: str


def bundled() -> list[Text]:
    """The data sets of `dayzero bench`: 164 programs, 80 pairs of questions, a coding agent's session."""
    programs = read_rows("humaneval.jsonl.gz", _Program)
    questions = read_rows("mtbench.jsonl.gz", Question)
    session = "\n\n".join(line.content for line in read_rows("agentic.json.gz", _Line))
    return [
        *(Text(f"humaneval/{i}", p.prompt + p.canonical_solution + p.test) for i, p in enumerate(programs)),
        *(Text(f"mtbench/{i}", "\n\n".join(question.turns)) for i, question in enumerate(questions)),
        Text("agentic", session),
    ]


def read_texts(path: Path, fields: Sequence[str] = ("text",)) -> list[Text]:
    """A plain file as one document, or each row of a .jsonl as one; either may end in .gz as well.

    fields  of a row, joined by a line break
    """
    try:
        raw = path.read_bytes()
        content = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except OSError as error:  # a broken gzip too
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    name = path.name.removesuffix(".gz")
    if not name.endswith(".jsonl"):
        return [Text(name, content.decode("utf-8", "replace"))]
    lines = enumerate(content.splitlines(), start=1)
    return [Text(f"{name}/{number}", _row(line, fields, f"{path}:{number}")) for number, line in lines if line.strip()]


def passages(texts: Sequence[Text], tokenizer: Tokenizer, *, num_tokens: int, passage_tokens: int) -> list[Passage]:
    """The texts, cut; of all passages as many as hold `num_tokens`. ConfigError if there are fewer.

    They are drawn at random, always the same ones, so that every data set has its share of few tokens too. Text is
    data: it never becomes a special token.
    """
    cut = [passage for text in texts for passage in _cut(text, tokenizer, passage_tokens)]
    drawn: dict[int, Passage] = {}
    missing = num_tokens
    for index in np.random.default_rng(0).permutation(len(cut)).tolist():
        if missing == 0:
            break
        drawn[index] = Passage(cut[index].document, cut[index].tokens[:missing])
        missing -= len(drawn[index].tokens)
    if missing:
        raise ConfigError(
            f"too little text: {num_tokens - missing} tokens (asked for {num_tokens})",
            hint="give more text or ask for less",
        )
    return [drawn[index] for index in sorted(drawn)]


def _row(line: bytes, fields: Sequence[str], where: str) -> str:
    try:
        row: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"not a JSON object: {where} ({error})") from None
    values = [row.get(field) for field in fields]
    for field, value in zip(fields, values, strict=True):
        if not isinstance(value, str):
            raise ConfigError(f"no text in field {field}: {where}", hint="name the fields that hold the text")
    return "\n".join(str(value) for value in values)


def _cut(text: Text, tokenizer: Tokenizer, passage_tokens: int) -> Iterator[Passage]:
    tokens = tokenizer.encode_prompt(text.content, special=False)
    for start in range(0, len(tokens), passage_tokens):
        yield Passage(text.name, tuple(tokens[start : start + passage_tokens]))
