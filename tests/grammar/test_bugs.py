"""What parsers of other servers got wrong, however the output comes. docs/bugs.md has the rest of the list."""

import json

import pytest

from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import Parser, parser_for
from tests.grammar.bug_cases import BUGS, KOELN, PING, Bug
from tests.grammar.reading import Answer, read
from tests.grammar.splits import splits_of, with_marker_tokens
from tests.grammar.written import Call, written


def parser_of(bug: Bug, tokens: frozenset[str] = frozenset()) -> Parser:
    starts = bug.starts_in_reasoning
    return parser_for(bug.format, bug.offered(), starts_in_reasoning=starts, marker_tokens=tokens)


def check(answer: Answer, bug: Bug) -> None:
    """To the character: so no marker leaks either."""
    complete = [Call(call.name, json.loads(call.arguments)) for call in answer.calls if call.is_complete]
    broken = [(call.name, call.arguments) for call in answer.calls if not call.is_complete]
    assert (complete, broken) == (list(bug.calls), [bug.broken] if bug.broken else [])
    assert (answer.text, answer.reasoning) == (bug.text, bug.reasoning)


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_an_output_says_what_it_should_however_it_is_cut(bug: Bug) -> None:
    answer = read(parser_of(bug), [bug.output])
    check(answer, bug)
    for pieces in splits_of(bug.output):
        assert read(parser_of(bug), pieces) == answer, pieces


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_an_output_says_the_same_where_markers_are_tokens(bug: Bug) -> None:
    tokens = frozenset(bug.format.markers)
    check(read(parser_of(bug, tokens), with_marker_tokens(bug.output, tokens)), bug)


def test_parsers_that_read_at_the_same_time_do_not_meet() -> None:
    """B27: a state that many requests shared gave empty calls and lost arguments."""
    form = FORMATS["kimi-k2"]
    bugs = [
        Bug(number=27, about=str(n), format=form, output=written(form, [KOELN, PING] * (n % 3 + 1))) for n in range(32)
    ]
    parsers, answers = [parser_of(bug) for bug in bugs], [Answer() for _ in bugs]
    for at in range(max(len(bug.output) for bug in bugs)):
        for bug, parser, answer in zip(bugs, parsers, answers, strict=True):
            for part in parser.push([bug.output[at : at + 1]]):
                answer.add(part)
    for bug, parser, answer in zip(bugs, parsers, answers, strict=True):
        assert parser.finish() == []
        assert answer == read(parser_of(bug), [bug.output])
        assert len(answer.calls) == 2 * (int(bug.about) % 3 + 1)


def test_a_call_is_complete_only_when_all_of_it_came() -> None:
    """B40: a call that the limit of tokens cut was told as a call to make."""
    for form in FORMATS.values():
        tools = BUGS[0].offered()
        whole = written(form, [KOELN])
        for cut in range(len(whole)):
            answer = read(parser_for(form, tools), [whole[:cut]])
            complete = [json.loads(call.arguments) for call in answer.calls if call.is_complete]
            if cut > whole.rindex("Köln"):
                assert complete in ([], [KOELN.arguments])
            else:  # in harmony nothing but the cut tells a body that did not come from one that is empty
                assert complete == [] or (form.name == "harmony" and complete == [{}] and whole[:cut].endswith("|>"))
