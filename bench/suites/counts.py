"""What each suite comes to, counted.

A count is kept in counts.json; a run that counts more of what should not be is worse, and its test fails.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import jsonschema

from bench.suites.calls import arguments, parameters
from bench.suites.cases import CallCase, Json, SchemaCase, bfcl, json_schema_bench, kimi
from bench.suites.grammar import ByteGrammar, Refused
from bench.suites.instances import canonical, compact, escaped, ordered

STORED = Path(__file__).with_name("counts.json")
DRAWS = 3  # of each schema
MAX_DRAWN_BYTES = 4000

# What a run must not have more of than the one that is stored.
WORSE = (
    "refused up front",
    "valid, refused",
    "valid, refused compact",
    "valid, refused in the order as written",
    "valid, refused with escapes",
    "invalid, accepted",
    "drawn, not valid",
    "drawn, not ended",
)

Counts = Mapping[str, int]


def of_schemas(cases: Iterable[SchemaCase]) -> Counts:
    """Of schemas that are compiled, what becomes of their instances, and whether what is drawn from them is valid."""
    counts: Counter[str] = Counter()
    for case in cases:
        counts["schemas"] += 1
        try:
            grammar = ByteGrammar(case.schema)
        except Refused:
            counts["refused up front"] += 1
            continue
        for value in case.valid:
            _count_valid(counts, grammar, value, case.schema)
        for value in case.invalid:
            _count_invalid(counts, grammar, value, case.schema)
        _count_drawn(counts, grammar, case)
    return dict(counts)


def of_calls(cases: Iterable[CallCase]) -> Counts:
    """Whether the arguments that the leaderboard expects can be called with.

    Some of its answers do not fit its own schemas (a value beside the enum, a required argument left out): these are
    what `invalid` counts, and a grammar must refuse them.
    """
    counts: Counter[str] = Counter()
    for case in cases:
        grammars: dict[str, tuple[ByteGrammar, Json]] = {}
        for tool in case.tools:
            counts["schemas"] += 1
            schema = parameters(tool)
            try:
                grammars[tool["name"]] = (ByteGrammar(schema), schema)
            except Refused:
                counts["refused up front"] += 1
        for name, answer in case.answers:
            if name not in grammars:
                continue
            grammar, schema = grammars[name]
            for value in arguments(answer):
                is_valid = jsonschema.Draft202012Validator(schema).is_valid(value)
                (_count_valid if is_valid else _count_invalid)(counts, grammar, value, schema)
    return dict(counts)


SUITES: Mapping[str, Callable[[Path], Counts]] = {
    "JSONSchemaBench": lambda data: of_schemas(json_schema_bench(data)),
    "Kimi vendor verifier": lambda data: of_schemas(kimi(data)),
    "BFCL v4": lambda data: of_calls(bfcl(data)),
}


def stored() -> Mapping[str, Counts]:
    return json.loads(STORED.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def keep(counts: Mapping[str, Counts]) -> None:
    STORED.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def table(counts: Mapping[str, Counts]) -> str:
    """A row for each count, a column for each suite."""
    names = sorted({name for suite in counts.values() for name in suite}, key=_place)
    rows = [["count", *counts], ["---"] * (1 + len(counts))]
    rows += [[name, *(str(suite.get(name, 0)) for suite in counts.values())] for name in names]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _place(name: str) -> tuple[int, str]:
    groups = ("schemas", "refused up front", "valid", "invalid", "drawn")
    return next(i for i, group in enumerate(groups) if name.startswith(group)), name


def _count_valid(counts: Counter[str], grammar: ByteGrammar, value: Json, schema: Json) -> None:
    counts["valid"] += 1
    in_order = ordered(value, schema, schema)
    is_accepted = grammar.accepts(canonical(in_order))
    counts["valid, refused"] += not is_accepted
    if not is_accepted:
        return
    counts["valid, refused compact"] += not grammar.accepts(compact(in_order))
    counts["valid, refused in the order as written"] += not grammar.accepts(canonical(value))
    counts["valid, refused with escapes"] += not grammar.accepts(escaped(in_order))


def _count_invalid(counts: Counter[str], grammar: ByteGrammar, value: Json, schema: Json) -> None:
    counts["invalid"] += 1
    orders = (value, ordered(value, schema, schema))
    counts["invalid, accepted"] += any(grammar.accepts(write(v)) for v in orders for write in (canonical, compact))


def _count_drawn(counts: Counter[str], grammar: ByteGrammar, case: SchemaCase) -> None:
    rng = random.Random(case.name)
    kind = jsonschema.validators.validator_for(case.schema, default=jsonschema.Draft202012Validator)
    for _ in range(DRAWS):
        counts["drawn"] += 1
        text = grammar.draw(rng, max_bytes=MAX_DRAWN_BYTES)
        if text is None:
            counts["drawn, not ended"] += 1
        else:
            counts["drawn, not valid"] += not kind(case.schema).is_valid(json.loads(text))
