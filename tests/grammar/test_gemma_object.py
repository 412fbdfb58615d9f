"""Gemma's notation of arguments, as JSON."""

import json

import pytest

from dayzero.grammar.gemma_object import MAX_DEPTH, MAX_WORD, STRING_MARK, GemmaObject


def read(*pieces: str) -> tuple[str, str, GemmaObject]:
    """The JSON, what was left unread, and the object."""
    gemma, text, rest = GemmaObject(), "", ""
    for piece in pieces:
        rest += piece
        given, num_read = gemma.feed(rest)
        text, rest = text + given, rest[num_read:]
    return text, rest, gemma


def quoted(text: str) -> str:
    return STRING_MARK + text + STRING_MARK


CASES = [
    ("{}", {}),
    ("{ city : " + quoted('Köln "1"\n') + " }", {"city": 'Köln "1"\n'}),
    ("{n:2,x:-1.5e3,yes:true,no:false,none:null}", {"n": 2, "x": -1.5e3, "yes": True, "no": False, "none": None}),
    ("{a:[1,[" + quoted("b]") + "],[]],o:{" + quoted("k:}") + ":{}}}", {"a": [1, ["b]"], []], "o": {"k:}": {}}}),
    ("{word:hello world,empty:,zero:007,}", {"word": "hello world", "empty": "", "zero": "007"}),
    ("{almost:" + quoted('<|"') + "}", {"almost": '<|"'}),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_an_object_is_read_however_it_is_cut(text: str, expected: dict[str, object]) -> None:
    whole, rest, gemma = read(text + "<tool_call|>")
    assert json.loads(whole) == expected
    assert (rest, gemma.is_complete, gemma.is_broken) == ("<tool_call|>", True, False)
    assert read(*text)[0] == whole
    assert all(read(text[:cut], text[cut:])[0] == whole for cut in range(len(text)))


def test_a_string_streams() -> None:
    assert read("{city:" + STRING_MARK + 'Kö"')[0] == '{"city": "Kö\\"'


@pytest.mark.parametrize("text", ["[1]", "word", "{a:1]", "{a:[1}", "{" + quoted("a") + "1}", "{a:" + "[" * MAX_DEPTH])
def test_what_is_no_object_is_broken(text: str) -> None:
    assert read(text)[2].is_broken
    assert read(*text)[2].is_broken


@pytest.mark.parametrize("begin", ["{", "{a:"])
def test_words_have_a_limit(begin: str) -> None:
    text = begin + "w" * (MAX_WORD + 1)
    assert read(text)[2].is_broken
    assert read(text[:100], text[100:])[2].is_broken
    assert not read(text[:-100])[2].is_broken
