"""What other projects say of outputs is well formed; `test_parser` reads them."""

import re

import jsonschema
import pytest

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
