"""The answers of the function calling leaderboard as calls of every format: accepted, and read as they were."""

import json
from pathlib import Path

import jsonschema
import pytest

from bench.suites.calls import arguments, parameters
from bench.suites.cases import WHY_NOT, CallCase, bfcl, folder
from bench.suites.instances import ordered
from dayzero.errors import RequestError
from dayzero.grammar.call_grammar import grammar_for
from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import parser_for
from dayzero.grammar.tools import Tool
from tests.grammar.bytes_vocabulary import BytesVocabulary
from tests.grammar.reading import Answer
from tests.grammar.written import Call, written


@pytest.fixture(params=FORMATS.values(), ids=lambda found: found.name)
def found(request: pytest.FixtureRequest) -> Format:
    return request.param


def cases() -> list[CallCase]:
    data = folder()
    if data is None:
        pytest.skip(WHY_NOT)
    return [case for case in bfcl(Path(data)) if case.answers]


def calls_of(case: CallCase, tools: list[Tool]) -> list[Call]:
    """Of the answers of a case those that fit its own schemas."""
    schemas = {tool.name: tool.parameters for tool in tools}
    return [
        Call(name, ordered(value, schemas[name], schemas[name]))
        for name, answer in case.answers
        if name in schemas
        for value in arguments(answer)
        if jsonschema.Draft202012Validator(schemas[name]).is_valid(value)
    ]


def check(found: Format, case: CallCase, vocabulary: BytesVocabulary) -> int:
    """How many calls were read; 0 for a case with a schema that this format cannot be bound to."""
    tools = [Tool(tool["name"], parameters(tool)) for tool in case.tools]
    grammar = grammar_for(found, tools, parallel=True, token_ids=vocabulary.token_ids, eos_token_ids=())
    try:
        source = grammar.calls(starts_in_reasoning=False)
    except RequestError:
        return 0
    calls = calls_of(case, tools)
    for call in calls:
        output = written(found, [call])
        assert vocabulary.accepts(source, output), (case.name, output)
        parser, answer = parser_for(found, tools, marker_tokens=frozenset(vocabulary.token_ids)), Answer()
        for part in (*parser.push(vocabulary.pieces(vocabulary.encode(output))), *parser.finish()):
            answer.add(part)
        assert [Call(one.name, json.loads(one.arguments)) for one in answer.calls] == [call]
    return len(calls)


def test_an_answer_of_the_leaderboard_is_a_call_of_every_format(found: Format) -> None:
    vocabulary = BytesVocabulary(found.markers)
    assert sum(check(found, case, vocabulary) for case in cases()[::40]) > 40


@pytest.mark.slow
def test_every_answer_of_the_leaderboard_is_a_call_of_every_format(found: Format) -> None:
    vocabulary = BytesVocabulary(found.markers)
    assert sum(check(found, case, vocabulary) for case in cases()) > 1800
