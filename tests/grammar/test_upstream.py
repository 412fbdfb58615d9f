"""What other projects say of an output is what we read in it."""

import json
import re

import jsonschema
import pytest

from dayzero.grammar.harmony import HarmonyParser
from tests.grammar.reading import read_every_way
from tests.grammar.upstream_cases import Case, cases_of, every_case, formats

EVERY_CASE = [pytest.param(case, id=f"{name}: {case.about}") for name, case in every_case()]
SOURCE = re.compile(r"[\w.-]+/[\w.-]+:[\w./-]+")


@pytest.mark.parametrize("name", formats())
def test_a_format_has_cases_with_a_call_and_each_says_what_it_is_about(name: str) -> None:
    cases = cases_of(name)
    assert any(case.expected.calls for case in cases)
    assert len({case.about for case in cases}) == len(cases)


@pytest.mark.parametrize("case", EVERY_CASE)
def test_a_case_names_its_source_and_calls_what_was_offered(case: Case) -> None:
    assert SOURCE.fullmatch(case.source)
    offered = {tool.name: tool.parameters for tool in case.tools}
    for call in case.expected.calls:
        jsonschema.validate(call.arguments, offered[call.name])


@pytest.mark.parametrize("case", [pytest.param(case, id=case.about) for case in cases_of("harmony")])
def test_an_output_is_read_as_its_source_says(case: Case) -> None:
    answer = read_every_way(
        lambda: HarmonyParser(case.offered(), starts_in_reasoning=case.starts_in_reasoning), case.output
    )
    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [
        (call.name, call.arguments) for call in case.expected.calls
    ]
    assert all(call.is_complete for call in answer.calls)
    if case.expected.text is not None:
        assert answer.text.strip() == case.expected.text.strip()
    if case.expected.reasoning is not None:
        assert answer.reasoning.strip() == case.expected.reasoning.strip()
