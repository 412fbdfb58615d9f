import llguidance as lg
import numpy as np
import pytest

from dayzero.grammar.matcher import Mask, TokenTable
from tests.gateway.stand import EOS, byte_tokenizer

VOCAB_SIZE = 300  # wider than the tokenizer
SCHEMA = '{"type": "object", "properties": {"a": {"enum": ["x", "yy"]}, "n": {"type": "integer"}}, "required": ["a"]}'


@pytest.fixture(scope="module")
def table() -> TokenTable:
    return TokenTable(byte_tokenizer().to_json(), VOCAB_SIZE, [EOS])


def allowed(mask: Mask) -> set[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little", count=VOCAB_SIZE)
    return set(np.flatnonzero(bits).tolist())


@pytest.mark.parametrize("prefix", [b"", b"{", b'{"a": "', b'{"a":"yy"', b'{"a":"x","n":1'])
def test_a_token_is_in_the_mask_exactly_if_it_is_taken(table: TokenTable, prefix: bytes) -> None:
    grammar = lg.LLMatcher.grammar_from_json_schema(SCHEMA)
    matcher = table.matcher(grammar)
    assert matcher.take(list(prefix))
    mask = allowed(matcher.mask())
    for token in range(257):
        other = table.matcher(grammar)
        other.take(list(prefix))
        assert other.take([token]) == (token in mask), token
    assert max(mask) <= EOS, "ids beyond the tokenizer stay masked"


def test_a_rollback_leads_back_to_the_same_mask(table: TokenTable) -> None:
    matcher = table.matcher(lg.LLMatcher.grammar_from_json_schema(SCHEMA))
    matcher.take(list(b'{"a":'))
    before = matcher.mask()
    assert matcher.take(list(b'"yy"'))
    matcher.rollback(4)
    assert (matcher.mask() == before).all()


def test_the_end_may_come_only_where_the_grammar_accepts(table: TokenTable) -> None:
    matcher = table.matcher(lg.LLMatcher.grammar_from_regex("ab?"))
    assert EOS not in allowed(matcher.mask())
    matcher.take(list(b"a"))
    assert EOS in allowed(matcher.mask())
    matcher.take(list(b"b"))
    assert allowed(matcher.mask()) == {EOS}
    assert matcher.is_complete


def test_a_token_that_is_refused_breaks_the_matcher_for_good(table: TokenTable) -> None:
    matcher = table.matcher(lg.LLMatcher.grammar_from_regex("ab"))
    assert not matcher.take(list(b"x"))
    assert matcher.is_broken
    assert table.matcher("start: missing").is_broken


def test_matchers_of_one_grammar_go_their_own_ways(table: TokenTable) -> None:
    first, second = (table.matcher("start: /ab|cd/") for _ in range(2))
    assert first.take(b"a")
    third = table.matcher("start: /ab|cd/")
    assert second.take(b"c")
    assert third.take(b"ab")
    assert first.take(b"b")
    assert not second.take(b"b")


def test_a_grammar_that_does_not_compile_is_broken_again_and_again(table: TokenTable) -> None:
    assert [table.matcher("start: unknown").is_broken for _ in range(3)] == [True] * 3
