"""What binds answers, by what a request wants of its tools."""

import pytest

from dayzero.core.constraint import Constraint
from dayzero.grammar.answer_constraint import answer_constraint
from dayzero.grammar.format import Format
from dayzero.grammar.formats.gemma4 import GEMMA4
from dayzero.grammar.formats.harmony import HARMONY
from dayzero.grammar.formats.hermes import HERMES
from dayzero.grammar.formats.llama3_json import LLAMA3_JSON
from dayzero.grammar.formats.phi4_mini import PHI4_MINI
from dayzero.grammar.formats.pythonic import PYTHONIC
from dayzero.grammar.formats.qwen3_coder import QWEN3_CODER
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.tools import CallMode, Tool
from tests.grammar.bytes_vocabulary import BytesVocabulary
from tests.grammar.written import Call, written

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("weather", CITY)
STRICT = Tool("weather", CITY, strict=True)
NOTE = Tool("note", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})

GOOD = Call("weather", {"city": "Köln"})
LOOSE = Call("weather", {"town": 1})
UNKNOWN = Call("unknown", {"city": "Köln"})


def constraint(
    found: Format,
    *tools: Tool,
    mode: CallMode = "auto",
    parallel: bool = True,
    token_ids: dict[str, int] | None = None,
    eos: tuple[int, ...] = (),
) -> Constraint:
    return answer_constraint(
        found,
        tools,
        mode=mode,
        parallel=parallel,
        starts_in_reasoning=False,
        token_ids=token_ids or {},
        eos_token_ids=eos,
    )


def rest(found: Format, call: Call) -> str:
    return written(found, [call], triggered=True).removeprefix(found.triggers[0])


@pytest.mark.parametrize("mode", ["required", "named"])
def test_calls_that_must_come_fit_their_schema_strict_or_not(mode: CallMode) -> None:
    bound = constraint(HERMES, WEATHER, mode=mode, parallel=False)
    assert not bound.after_tokens
    assert not bound.repeats
    assert BytesVocabulary().accepts(bound.grammar, written(HERMES, [GOOD]))
    assert not BytesVocabulary().accepts(bound.grammar, written(HERMES, [LOOSE]))


def test_a_call_that_may_come_fits_its_schema_where_its_tool_is_strict() -> None:
    vocabulary = BytesVocabulary(HERMES.markers)
    for tool, accepts_loose in ((WEATHER, True), (STRICT, False)):
        bound = constraint(HERMES, tool, NOTE, token_ids=vocabulary.token_ids)
        assert bound.after_tokens == (vocabulary.token_ids["<tool_call>"],)
        assert bound.repeats
        assert vocabulary.accepts(bound.grammar, rest(HERMES, GOOD))
        assert vocabulary.accepts(bound.grammar, rest(HERMES, LOOSE)) == accepts_loose
        assert not vocabulary.accepts(bound.grammar, rest(HERMES, UNKNOWN))


def test_one_call_alone_ends_the_answer() -> None:
    vocabulary = BytesVocabulary(HERMES.markers)
    assert not constraint(HERMES, WEATHER, parallel=False, token_ids=vocabulary.token_ids).repeats


@pytest.mark.parametrize("found", [PHI4_MINI, LLAMA3_JSON, QWEN3_CODER, GEMMA4], ids=lambda found: found.name)
def test_without_a_token_that_begins_calls_an_answer_is_bound_whole_if_a_tool_is_strict(found: Format) -> None:
    assert constraint(found, WEATHER) == Constraint()
    bound = constraint(found, STRICT, NOTE)
    assert not bound.after_tokens
    assert BytesVocabulary().accepts(bound.grammar, "No call.")
    assert BytesVocabulary().accepts(bound.grammar, written(found, [GOOD]))
    assert not BytesVocabulary().accepts(bound.grammar, written(found, [LOOSE]))


def test_what_is_only_read_takes_no_token_from_what_binds() -> None:
    kimi, strict = FORMATS["kimi-k2"], STRICT
    ids = {marker: number for number, marker in enumerate(kimi.markers) if marker not in kimi.also_read}
    assert constraint(kimi, strict, token_ids=ids).after_tokens == (ids[kimi.triggers[0]],)


def test_no_call_is_begun_where_none_is_wanted() -> None:
    token_ids = {"<tool_call>": 7, "<tool_response>": 8, "<|im_start|>": 9}
    assert constraint(HERMES, WEATHER, mode="none", token_ids=token_ids) == Constraint(banned=(8, 9, 7))
    assert constraint(HERMES, token_ids=token_ids) == Constraint(banned=(8, 9, 7))


@pytest.mark.parametrize("mode", ["none", "auto", "required"])
def test_turns_of_others_are_banned_unless_they_end_the_answer(mode: CallMode) -> None:
    token_ids = {"<|turn>": 7, "<|tool_response>": 8}
    assert constraint(GEMMA4, WEATHER, mode=mode, token_ids=token_ids).banned == (7, 8)
    assert constraint(GEMMA4, WEATHER, mode=mode, token_ids=token_ids, eos=(8,)).banned == (7,)
    assert not constraint(HERMES, WEATHER, mode=mode, token_ids=token_ids).banned


@pytest.mark.parametrize("word", ["<|header_start|>", "<|start_header_id|>", "<|im_start|>"])
def test_turns_of_others_are_banned_in_whichever_vocabulary_has_them(word: str) -> None:
    assert constraint(PYTHONIC, WEATHER, token_ids={word: 7}).banned == (7,)
    assert not constraint(PYTHONIC, WEATHER).banned


def test_what_a_client_wrote_is_never_a_token_that_is_banned() -> None:
    word = "<tool_response>"
    tool = Tool("f", {"type": "object", "properties": {"a": {"enum": [word]}}, "required": ["a"]})
    vocabulary = BytesVocabulary(QWEN3_CODER.markers)  # in which the word is spelt out
    bound = constraint(QWEN3_CODER, tool, mode="required", token_ids={**vocabulary.token_ids, word: 0})
    assert bound.banned == (0,)
    assert vocabulary.accepts(bound.grammar, written(QWEN3_CODER, [Call("f", {"a": word})]))


@pytest.mark.parametrize("tools", [(), (WEATHER,)])
def test_a_message_is_never_of_another_role(tools: tuple[Tool, ...]) -> None:
    vocabulary = BytesVocabulary(HARMONY.markers)
    bound = constraint(HARMONY, *tools, token_ids=vocabulary.token_ids)
    assert bound.after_tokens == (vocabulary.token_ids["<|start|>"],)
    assert bound.repeats
    assert vocabulary.accepts(bound.grammar, "assistant")
    assert vocabulary.num_accepted(bound.grammar, "functions.weather") == 0


def test_every_format_says_what_a_model_must_never_write() -> None:
    assert [found.name for found in FORMATS.values() if not found.forbidden] == ["harmony"]
