"""The public cases that structured output and tool calls are held to, as they lie on disk.

The folder is $DAYZERO_SUITES, else the nearest `shared/data` beside the repository or a folder above it. Its layout:

    jsonschemabench/sample.jsonl.gz            JSONSchemaBench: schemas, and instances marked valid or not
    kimi_schema_cases/valid_schemas.jsonl      schemas of the Kimi vendor verifier, each of which must be served
    bfcl/*.jsonl, bfcl/possible_answer/*.jsonl the Berkeley function calling leaderboard, v4
"""

import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WHY_NOT = "the suites' cases are not on this machine: set DAYZERO_SUITES to their folder (docs/quality.md)"

Json = Any


@dataclass(frozen=True, slots=True)
class SchemaCase:
    """A JSON Schema, and instances whose validity is known."""

    suite: str
    name: str
    schema: Json
    valid: Sequence[Json] = ()
    invalid: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class CallCase:
    """A question beside tools. `answers`: of each call that is wanted its name, and what each argument may be."""

    category: str
    name: str
    question: Sequence[Mapping[str, Json]]
    tools: Sequence[Mapping[str, Json]]
    answers: Sequence[tuple[str, Mapping[str, Sequence[Json]]]]


def folder() -> Path | None:
    """Where the cases are, None if they are not here."""
    if named := os.environ.get("DAYZERO_SUITES"):
        return Path(named)
    beside = (parent / "shared" / "data" for parent in ROOT.parents)
    return next((path for path in beside if (path / "jsonschemabench").is_dir()), None)


def json_schema_bench(data: Path) -> Iterator[SchemaCase]:
    with gzip.open(data / "jsonschemabench" / "sample.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            valid = [test["data"] for test in row["tests"] if test["valid"]]
            invalid = [test["data"] for test in row["tests"] if not test["valid"]]
            yield SchemaCase("JSONSchemaBench", row["id"], row["schema"], valid, invalid)


def kimi(data: Path) -> Iterator[SchemaCase]:
    for number, row in enumerate(_rows(data / "kimi_schema_cases" / "valid_schemas.jsonl")):
        yield SchemaCase("Kimi", f"{row['suite']}-{number}", json.loads(row["schema"]))


def bfcl(data: Path) -> Iterator[CallCase]:
    for path in sorted((data / "bfcl").glob("BFCL_v4_*.jsonl")):
        wanted = {row["id"]: row["ground_truth"] for row in _rows(data / "bfcl" / "possible_answer" / path.name)}
        for row in _rows(path):
            answers = [next(iter(call.items())) for call in wanted.get(row["id"], ())]
            category = path.stem.removeprefix("BFCL_v4_")
            yield CallCase(category, row["id"], row["question"][0], row["function"], answers)


def _rows(path: Path) -> Iterator[Json]:
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
