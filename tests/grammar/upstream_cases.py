"""The cases of `upstream/`: outputs of models, and what other projects say they mean."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dayzero.grammar.tools import Tool

FOLDER = Path(__file__).parent / "upstream"


class OfferedTool(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parameters: dict[str, object]


class Call(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, object]


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """`None` where the source says nothing of it."""

    calls: list[Call]
    text: str | None = None
    reasoning: str | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    about: str
    tools: list[OfferedTool]
    output: str
    starts_in_reasoning: bool
    expected: Expected

    def offered(self) -> list[Tool]:
        return [Tool(tool.name, tool.parameters) for tool in self.tools]


def formats() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def cases_of(name: str) -> list[Case]:
    return msgspec.convert(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")), list[Case])


def every_case() -> Iterator[tuple[str, Case]]:
    for name in formats():
        yield from ((name, case) for case in cases_of(name))
