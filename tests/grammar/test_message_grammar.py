"""The grammar of harmony's messages."""

import json

import pytest

from dayzero.grammar.call_grammar import AnswerGrammar, grammar_for
from dayzero.grammar.formats.harmony import HARMONY
from dayzero.grammar.harmony import HarmonyParser
from dayzero.grammar.tools import Tool
from tests.grammar.bytes_vocabulary import BytesVocabulary
from tests.grammar.reading import Answer, ReadCall, read

TOOLS = [
    Tool("weather", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
    Tool("ping", {"type": "object", "properties": {}, "additionalProperties": False}),
]
NEXT = "<|start|>assistant"
THOUGHT = f"<|channel|>analysis<|message|>Which city?<|end|>{NEXT}"
PREAMBLE = f"<|channel|>commentary<|message|>Let me look.<|end|>{NEXT}"
FINAL = "<|channel|>final<|message|>Sunny <|-|> warm."
ARGUMENTS = '{"city": "Köln"}'
CALLS = [
    f"<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{ARGUMENTS}",
    f"<|channel|>commentary to=functions.weather<|constrain|>json<|message|>{ARGUMENTS}",
    f" to=functions.weather<|channel|>commentary <|constrain|>json<|message|>{ARGUMENTS}",
    f" to=functions.weather<|channel|>commentary json<|message|>{ARGUMENTS}",
    f" to=functions.weather<|channel|>commentary<|message|>{ARGUMENTS}",
]
PING = "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}"
BROKEN = [
    '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"town": "Köln"}',
    "<|channel|>commentary to=functions.other <|constrain|>json<|message|>{}",
    "<|channel|>commentary to=python code<|message|>1 + 1",
    " to=functions.weather<|channel|>commentary code<|message|>{}",
]


@pytest.fixture(params=[(), HARMONY.markers], ids=["as text", "as tokens"])
def vocabulary(request: pytest.FixtureRequest) -> BytesVocabulary:
    return BytesVocabulary(request.param)


def grammar_of(vocabulary: BytesVocabulary, *, parallel: bool = True, eos: tuple[str, ...] = ()) -> AnswerGrammar:
    ids = vocabulary.token_ids
    return grammar_for(HARMONY, TOOLS, parallel=parallel, token_ids=ids, eos_token_ids=[ids[mark] for mark in eos])


def answer(output: str, *, starts_in_reasoning: bool = False) -> Answer:
    return read(HarmonyParser(TOOLS, starts_in_reasoning=starts_in_reasoning), [output])


def test_a_call_may_have_every_header_that_models_write(vocabulary: BytesVocabulary) -> None:
    grammar = grammar_of(vocabulary)
    for source in (grammar.calls(starts_in_reasoning=False), grammar.text_and_calls(starts_in_reasoning=False)):
        for call in CALLS:
            assert vocabulary.accepts(source, f"{THOUGHT}{call}<|call|>"), call
            assert answer(call).calls == [ReadCall("weather", ARGUMENTS, True)]
        assert not any(vocabulary.accepts(source, f"{call}<|call|>") for call in BROKEN)


def test_an_answer_of_calls_has_thoughts_and_no_text(vocabulary: BytesVocabulary) -> None:
    source = grammar_of(vocabulary).calls(starts_in_reasoning=False)
    for output in ("", THOUGHT, FINAL, f"{PREAMBLE}{PING}<|call|>", f"{PING}<|call|>{NEXT}{FINAL}"):
        assert not vocabulary.accepts(source, output)
    assert vocabulary.accepts(source, f"{THOUGHT}{THOUGHT}{PING}<|call|>{NEXT}{THOUGHT}{PING}<|call|>")


def test_an_answer_may_be_any_messages(vocabulary: BytesVocabulary) -> None:
    source = grammar_of(vocabulary).text_and_calls(starts_in_reasoning=False)
    outputs = [FINAL, f"{FINAL}<|return|>", f"{THOUGHT}{FINAL}", f"{THOUGHT}{PREAMBLE}{PING}<|call|>{NEXT}{FINAL}"]
    for output in outputs:
        assert vocabulary.accepts(source, output), output
    assert answer(outputs[-1]) == Answer(
        "Let me look.\nSunny <|-|> warm.", "Which city?", [ReadCall("ping", "{}", True)]
    )
    for role in ("user", "functions.weather to=assistant"):
        assert not vocabulary.accepts(source, f"{FINAL}<|end|><|start|>{role}<|message|>x<|end|>{NEXT}{FINAL}")


def test_one_call_alone_is_the_last_message(vocabulary: BytesVocabulary) -> None:
    grammar = grammar_of(vocabulary, parallel=False)
    for source in (grammar.calls(starts_in_reasoning=False), grammar.text_and_calls(starts_in_reasoning=False)):
        assert vocabulary.accepts(source, f"{THOUGHT}{PING}<|call|>")
        assert not vocabulary.accepts(source, f"{PING}<|call|>{NEXT}{PING}<|call|>")


def test_a_mark_that_ends_the_output_is_not_written() -> None:
    vocabulary = BytesVocabulary(HARMONY.markers)
    grammar = grammar_of(vocabulary, eos=("<|return|>", "<|call|>"))
    for source in (grammar.calls(starts_in_reasoning=False), grammar.text_and_calls(starts_in_reasoning=False)):
        assert vocabulary.accepts(source, PING)
        assert not vocabulary.accepts(source, f"{PING}<|call|>")
        assert vocabulary.accepts(source, f"{PING}<|end|>{NEXT}{PING}"), "so calls can still be several"


def test_thoughts_that_the_prompt_began_go_on(vocabulary: BytesVocabulary) -> None:
    source = grammar_of(vocabulary).calls(starts_in_reasoning=True)
    output = f"Which city?<|end|>{NEXT}{CALLS[0]}<|call|>"
    assert vocabulary.accepts(source, output)
    assert json.loads(answer(output, starts_in_reasoning=True).calls[0].arguments) == {"city": "Köln"}
