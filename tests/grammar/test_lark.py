"""What is written as a grammar, by what it accepts."""

import re

import pytest

from dayzero.grammar.lark import Lark
from tests.grammar.bytes_vocabulary import BytesVocabulary

TEXTS = ["", "a", "b", "ab", "ba", "aab", "a|b", "a/b", "(a", "[a", "a\\", "x", "xay", "a\nb", "é"]
PATTERNS = [
    "a",
    "^a",
    "a$",
    "^a$",
    "^a|b$",
    "a|^b",
    "(a|b)x?",
    r"^a\|b$",
    "^a/b$",
    r"^a\/b$",
    r"\(a",
    r"^[|)(\[]a",
    r"\\$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_has_a_match_of_a_pattern_somewhere(pattern: str) -> None:
    lark = Lark({})
    source = lark.source(lark.text_until("END", pattern=pattern))
    accepted = [text for text in TEXTS if BytesVocabulary().accepts(source, f"{text}END")]
    assert accepted == [text for text in TEXTS if re.search(pattern, text)]


@pytest.mark.parametrize("tokens", [(), ("<end>",)])
def test_a_text_ends_where_its_end_first_is_and_holds_no_marks(tokens: tuple[str, ...]) -> None:
    vocabulary = BytesVocabulary(tokens)
    lark = Lark(vocabulary.token_ids)
    source = lark.source(lark.text_until("\n<end>", marks=("<no>",)))
    assert vocabulary.accepts(source, "a\nb<n o>\n<end>")
    for output in ("a<no>\n<end>", "a\n<end>b\n<end>", "a<end>", "a"):
        assert not vocabulary.accepts(source, output)


def test_a_word_is_none_of_those_that_are_taken() -> None:
    lark = Lark({})
    source = lark.source(lark.word("[a-c.]+", besides=["ab", "a.c"]))
    words = ["a", "ab", "abc", "a.c", "abcc", "d", ""]
    assert [word for word in words if BytesVocabulary().accepts(source, word)] == ["a", "abc", "abcc"]


def test_items_of_a_list_have_separators_between_those_that_are_there() -> None:
    lark = Lark({})
    items = [('"a"', False), ('"b"', True), ('"c"', False)]
    source = lark.source(lark.listed(items, separator='","'))
    lists = ["a,b,c", "b,c", "a,b", "b", "a", "", "a,,b", "b,", "c"]
    assert [one for one in lists if BytesVocabulary().accepts(source, one)] == lists[:4]


def test_a_rule_is_written_once() -> None:
    lark = Lark({})
    assert lark.rule('"a"') == lark.rule('"a"')
    assert lark.schema({"type": "string"}) == lark.schema({"type": "string"})
    assert lark.text_until("x") != lark.text_until("y")
