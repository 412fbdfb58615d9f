"""Harmony beside what its own documents show."""

from dayzero.grammar.harmony import CHANNEL, ENDS, MAX_HEADER, MESSAGE, START, HarmonyParser
from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Reasoning, Text
from dayzero.grammar.tools import Tool
from dayzero.grammar.window import Marker
from tests.grammar.reading import Answer, ReadCall, read, read_every_way

WEATHER = Tool("weather", {"type": "object"})
CALL = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"


def answer_to(output: str, *, starts_in_reasoning: bool = False) -> Answer:
    return read_every_way(lambda: HarmonyParser([WEATHER], starts_in_reasoning=starts_in_reasoning), output)


def test_text_and_arguments_stream_as_they_come() -> None:
    parser = HarmonyParser([WEATHER])
    assert parser.push(["<|channel|>analysis<|message|>Let me"]) == [Reasoning("Let me")]
    assert parser.push([" see<|en"]) == [Reasoning(" see")]
    assert parser.push(["d|><|start|>assistant" + CALL]) == [CallStarted(0, "weather")]
    assert parser.push(['{"place": "Kö']) == [CallArguments(0, '{"place": "Kö')]


def test_a_marker_within_an_argument_is_what_the_argument_says() -> None:
    arguments = '{"text": "a <|end|> of a <|start|>, \\"<|call|>"}'
    assert answer_to(CALL + arguments + "<|call|>") == Answer(calls=[ReadCall("weather", arguments, True)])


def test_where_markers_are_tokens_text_that_spells_them_is_text() -> None:
    parser = HarmonyParser([WEATHER], marker_tokens=frozenset({START, MESSAGE, CHANNEL, *ENDS}))
    spelled = "a <|end|><|start|>assistant<|channel|>final<|message|> b"
    parts = parser.push([Marker(CHANNEL), "final", Marker(MESSAGE), spelled, Marker("<|return|>")])
    assert parts == [Text(spelled)]


def test_a_marker_that_is_a_token_ends_even_an_open_string() -> None:
    parser = HarmonyParser([WEATHER], marker_tokens=frozenset({START, MESSAGE, CHANNEL, *ENDS}))
    parser.push([Marker(CHANNEL), "commentary to=functions.weather", Marker(MESSAGE)])
    parts = parser.push(['{"a": "b', Marker("<|end|>")])
    assert parts == [CallArguments(0, '{"a": "b'), CallEnded(0, is_complete=False)]


def test_a_call_that_was_cut_is_not_complete() -> None:
    assert answer_to(CALL + '{"place": "Kö') == Answer(calls=[ReadCall("weather", '{"place": "Kö', False)])
    assert answer_to(CALL + '{"place": 1<|call|>') == Answer(calls=[ReadCall("weather", '{"place": 1', False)])


def test_arguments_that_are_no_object_are_not_complete() -> None:
    assert answer_to(CALL + '{"a": (b)}<|call|>') == Answer(calls=[ReadCall("weather", '{"a": (b)}', False)])
    assert answer_to(CALL + "Köln}<|call|>") == Answer(calls=[ReadCall("weather", "Köln}", False)])


def test_a_call_without_a_body_has_no_arguments() -> None:
    assert answer_to(CALL + "<|call|>") == Answer(calls=[ReadCall("weather", "{}", True)])


def test_a_recipient_that_was_not_offered_makes_no_call() -> None:
    assert answer_to("<|channel|>analysis to=python code<|message|>1 + 1<|call|>") == Answer(reasoning="1 + 1")
    assert answer_to("<|channel|>commentary to=functions.other<|message|>{}<|call|>") == Answer(text="{}")


def test_calls_that_are_not_wanted_are_dropped() -> None:
    output = CALL + '{"a": 1}<|call|><|start|>assistant' + CALL + "{}<|call|>"
    once = read_every_way(lambda: HarmonyParser([WEATHER], parallel=False), output)
    assert once == Answer(calls=[ReadCall("weather", '{"a": 1}', True)])
    assert read_every_way(lambda: HarmonyParser([WEATHER], calls="suppress"), output) == Answer()
    assert read_every_way(lambda: HarmonyParser([WEATHER], calls="ignore"), output) == Answer('{"a": 1}\n{}')


def test_what_a_tool_would_have_said_is_dropped() -> None:
    output = CALL + "{}<|call|><|start|>functions.weather to=assistant<|channel|>commentary<|message|>Sun<|end|>"
    assert answer_to(output) == Answer(calls=[ReadCall("weather", "{}", True)])


def test_messages_of_one_kind_stand_on_lines_of_their_own() -> None:
    output = "<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Then."
    assert answer_to(output) == Answer(text="First.\nThen.")


def test_a_message_may_begin_where_the_last_one_did_not_end() -> None:
    output = "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.<|start|>assistant" + CALL + "{}"
    assert answer_to(output) == Answer("Yes.", "Hm.", [ReadCall("weather", "{}", True)])


def test_text_without_any_header_is_text() -> None:
    assert answer_to("Hello, 1 < 2 and <|en") == Answer("Hello, 1 < 2 and <|en")
    assert answer_to("to") == Answer("to")


def test_an_output_that_ends_within_a_header_says_nothing_more() -> None:
    assert answer_to("<|channel|>final<|message|>Yes.<|end|><|start|>assis") == Answer("Yes.")
    assert answer_to(" to=functions.weather<|channel|>comm") == Answer()


def test_a_header_that_never_ends_is_text() -> None:
    rest = " never" * MAX_HEADER
    for pieces in (["<|channel|>final" + rest], list("<|channel|>final" + rest)):
        assert read(HarmonyParser([]), pieces) == Answer(rest)


def test_reasoning_that_the_prompt_began_goes_on() -> None:
    output = "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    assert answer_to(output, starts_in_reasoning=True) == Answer("Yes.", "Hm.")


def test_white_space_alone_is_text() -> None:
    assert answer_to(" \n") == Answer(" \n")
