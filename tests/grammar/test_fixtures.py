"""Every format, every kind of answer, however it comes."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import Parser, parser_for
from dayzero.grammar.tools import Tool
from tests.grammar.bug_cases import BUGS, INTEGER, LIST, OBJECT, STRING, TOOLS, taking
from tests.grammar.fixtures import FIXTURES, KINDS, Fixture
from tests.grammar.reading import Answer, read, read_groups
from tests.grammar.splits import groups_of, splits_of
from tests.grammar.upstream_cases import every_case
from tests.grammar.written import Call, written

EVERYTHING = taking(
    text=STRING, number={"type": "number"}, count=INTEGER, flag={"type": "boolean"}, list=LIST, map=OBJECT
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS,
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "count": st.integers(),
        "flag": st.booleans(),
        "list": st.lists(ANYTHING, max_size=3),
        "map": st.dictionaries(TEXTS, ANYTHING, max_size=3),
    },
)


def parser_of(fixture: Fixture, tokens: frozenset[str] = frozenset()) -> Parser:
    tools = [Tool(name, parameters) for name, parameters in TOOLS.items()]
    return parser_for(fixture.form, tools, marker_tokens=tokens)


def check(answer: Answer, fixture: Fixture) -> None:
    """To the character: so no marker leaks either."""
    complete = [Call(call.name, json.loads(call.arguments)) for call in answer.calls if call.is_complete]
    broken = [call.arguments for call in answer.calls if not call.is_complete]
    assert (complete, broken) == (list(fixture.calls), [] if fixture.broken is None else [fixture.broken])
    assert (answer.text, answer.reasoning) == (fixture.text, fixture.reasoning)


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_an_answer_says_what_was_written_however_it_is_cut(fixture: Fixture) -> None:
    answer = read(parser_of(fixture), [fixture.output])
    check(answer, fixture)
    for pieces in splits_of(fixture.output):
        assert read(parser_of(fixture), pieces) == answer, pieces


@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_an_answer_says_the_same_where_markers_are_tokens(fixture: Fixture) -> None:
    tokens, pieces = frozenset(fixture.form.markers), fixture.as_tokens()
    answer = read(parser_of(fixture, tokens), pieces)
    check(answer, fixture)
    for groups in groups_of(pieces):
        assert read_groups(parser_of(fixture, tokens), groups) == answer, groups


@pytest.mark.parametrize(
    "fixture", [fixture for fixture in FIXTURES if fixture.kind == "markers in strings"], ids=lambda one: one.form.name
)
def test_wherever_an_output_ends_it_says_the_same_however_it_was_cut(fixture: Fixture) -> None:
    for end in range(len(fixture.output)):
        output = fixture.output[:end]
        assert read(parser_of(fixture), [output]) == read(parser_of(fixture), list(output)), output


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(calls=st.lists(ARGUMENTS.map(lambda arguments: Call("f", arguments)), min_size=1, max_size=2))
def test_any_call_reads_as_it_was_written(form: Format, calls: list[Call]) -> None:
    answer = read(parser_for(form, [Tool("f", EVERYTHING)]), [written(form, calls)])
    assert [Call(call.name, json.loads(call.arguments)) for call in answer.calls if call.is_complete] == calls
    assert answer.text == ""


def test_every_format_has_answers_of_every_kind() -> None:
    count = Counter((fixture.form.name, fixture.kind) for fixture in FIXTURES)
    assert [pair for name in FORMATS for kind in KINDS if not count[pair := (name, kind)]] == []
    assert len(FIXTURES) >= 10 * len(FORMATS)
    assert len(list(every_case())) >= 180
    assert len(BUGS) >= 80
