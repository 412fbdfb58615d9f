"""Output items and their events over the outputs that every format is tested with, however they are cut."""

import random
import zlib

import pytest

from dayzero.gateway.views.responses_events import OutputItems
from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import parser_for
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Part, Reasoning, Text
from tests.gateway.views.responses_reader import Reader, without_ids
from tests.grammar.reading import read
from tests.grammar.upstream_cases import Case, cases_of

CASES = [
    (form, number, case)
    for name, form in FORMATS.items()
    for number, case in enumerate(cases_of(name.replace("-", "_").replace(".", "")))
]
cases = pytest.mark.parametrize(("form", "number", "case"), CASES, ids=[f"{f.name}-{n}" for f, n, _ in CASES])


def pieces_of(output: str) -> list[str]:
    chance = random.Random(zlib.crc32(output.encode()))
    pieces = []
    while output:
        length = chance.randrange(1, 12)
        pieces.append(output[:length])
        output = output[length:]
    return pieces


def items_read(form: Format, case: Case, pieces: list[str]) -> list[dict[str, object]]:
    """What the events come to; each is checked on the way."""
    parser = parser_for(form, case.offered(), starts_in_reasoning=case.starts_in_reasoning)
    items, reader = OutputItems(), Reader()
    parts = [part for piece in pieces for part in parser.push([piece])]
    for part in [*parts, *parser.finish()]:
        reader.read(items.push(part))
    reader.read(items.finish(is_complete=True))
    assert reader.finish() == items.items
    return items.items


@cases
def test_events_come_to_the_items_and_items_to_what_the_parser_says(form: Format, number: int, case: Case) -> None:  # noqa: ARG001
    """B58: events were missing, doubled or numbered wrongly. The reader refuses what breaks a rule of them."""
    whole = items_read(form, case, [case.output])
    assert without_ids(items_read(form, case, pieces_of(case.output))) == without_ids(whole)
    answer = read(
        parser_for(form, case.offered(), starts_in_reasoning=case.starts_in_reasoning),
        [case.output],
    )
    texts = {"message": "", "reasoning": ""}
    for item in whole:
        if item["type"] != "function_call":
            texts[item["type"]] += item["content"][0]["text"]  # type: ignore[index]
    assert texts == {"message": answer.text, "reasoning": answer.reasoning}
    calls = [(item["name"], item["arguments"], item["status"]) for item in whole if item["type"] == "function_call"]
    assert calls == [
        (call.name, call.arguments, "completed" if call.is_complete else "incomplete") for call in answer.calls
    ]


def told(*parts: Part, is_complete: bool = True) -> list[dict[str, object]]:
    items, reader = OutputItems(), Reader()
    for part in parts:
        reader.read(items.push(part))
    reader.read(items.finish(is_complete=is_complete))
    return reader.finish()


def test_ids_are_of_their_kind_and_no_two_are_one() -> None:
    call = [CallStarted(0, "f"), CallArguments(0, "{}"), CallEnded(0, is_complete=True)]
    found = told(Reasoning("hm"), Text("ok"), *call)
    assert [str(item["id"]).split("_")[0] for item in found] == ["rs", "msg", "fc"]
    assert str(found[2]["call_id"]).startswith("call_")
    assert len({item["id"] for item in [*found, *told(Text("ok"))]}) == 4


def test_a_model_that_says_nothing_has_said_an_empty_message() -> None:
    (message,) = told()
    assert (message["type"], message["status"]) == ("message", "completed")
    assert message["content"] == [{"type": "output_text", "text": "", "annotations": [], "logprobs": []}]


def test_only_the_item_that_was_cut_is_incomplete() -> None:
    assert [item["status"] for item in told(Reasoning("hm"), Text("o"), is_complete=False)] == [
        "completed",
        "incomplete",
    ]


def test_text_after_a_call_is_a_message_of_its_own() -> None:
    call = [CallStarted(0, "f"), CallEnded(0, is_complete=False)]
    found = told(Text("a"), *call, Text("b"))
    assert [item["type"] for item in found] == ["message", "function_call", "message"]
    assert [item["status"] for item in found] == ["completed", "incomplete", "completed"]
