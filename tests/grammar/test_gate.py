import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from dayzero.errors import CapacityError, RequestError
from dayzero.grammar.gate import Gate
from dayzero.grammar.lark import Lark
from tests.grammar.bytes_vocabulary import BytesVocabulary

BYTES = BytesVocabulary()


def with_gate(use: Callable[[Gate], Awaitable[None]], **options) -> None:
    async def main() -> None:
        gate = Gate(lambda: BYTES.json, BYTES.size, (BYTES.end,), **options)
        try:
            await use(gate)
        finally:
            await gate.close()

    asyncio.run(main())


def of_schema(schema: object) -> str:
    lark = Lark({})
    return lark.source(lark.rule(f"%json {json.dumps(schema)}"))


def reason(grammar: str, **options) -> str:
    found = []

    async def use(gate: Gate) -> None:
        with pytest.raises(RequestError) as caught:
            await gate.check(grammar, "response_format")
        assert (caught.value.code, caught.value.param) == ("invalid_schema", "response_format")
        found.append(caught.value.message)

    with_gate(use, **options)
    return found[0]


def test_a_grammar_that_compiles_passes_again_and_again():
    async def use(gate: Gate) -> None:
        for _ in range(3):
            await gate.check(of_schema({"type": "object"}), "response_format")

    with_gate(use)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"not": {"type": "string"}}, '"not"'),
        ({"type": "string", "format": "colour"}, "format: colour"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-ahead"),
        ({"type": "string", "pattern": 5}, "pattern"),
        ({"type": ["text"]}, "type: text"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, r"minimum \(5\)"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "no output|more work"),
    ],
)
def test_what_is_refused_is_named_in_one_line(schema, said):
    message = reason(of_schema(schema))
    assert "\n" not in message
    assert "%json" not in message
    assert any(part in message.lower() for part in said.lower().replace("\\", "").split("|")), message


@pytest.mark.parametrize(
    "grammar",
    [
        'start: start "a" | start "b"',
        "start: /(x{1,1000}){1,1000}/ unknown",
        'root ::= root "a" | "b"',
        'start: "a',
        "",
    ],
)
def test_a_grammar_that_cannot_be_followed_is_refused(grammar):
    assert reason(grammar)


def test_a_grammar_that_takes_too_long_is_refused_and_the_next_one_is_tried():
    slow = of_schema({"enum": [f"{number}" * 200 for number in range(9000)]})

    async def use(gate: Gate) -> None:
        with pytest.raises(RequestError, match="took longer"):
            await gate.check(slow, "response_format")
        assert gate._num_slow == 0

    with_gate(use, quick_s=0.001, limit_s=0.001)


def test_what_is_not_done_in_the_quick_lane_is_done_in_the_slow_one():
    async def use(gate: Gate) -> None:
        await gate.check(of_schema({"type": "object"}), "response_format")

    with_gate(use, quick_s=0.000001, limit_s=30.0)


def test_what_finds_no_place_in_the_slow_lane_may_come_again():
    async def use(gate: Gate) -> None:
        with pytest.raises(CapacityError, match="too many"):
            await gate.check(of_schema({"type": "object"}), "response_format")

    with_gate(use, quick_s=0.000001, max_slow=0)


def test_other_notations_become_larks():
    async def use(gate: Gate) -> None:
        lark = await gate.lark_of('root ::= "yes" | [0-9]+\n', "structured_outputs")
        assert "start:" in lark
        await gate.check(lark, "structured_outputs")
        assert await gate.lark_of("start: /a/", "structured_outputs") == "start: /a/"
        with pytest.raises(RequestError, match="does not parse"):
            await gate.lark_of("root ::= (((", "structured_outputs")

    with_gate(use)
