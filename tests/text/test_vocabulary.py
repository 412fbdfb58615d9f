import json

import pytest

from dayzero.errors import CheckpointError, UnsupportedModel
from dayzero.text.source import GgufVocabulary, TokenizerJson
from dayzero.text.tokenizer import Tokenizer
from dayzero.text.vocabulary import Spelling, build, piece_bytes
from tests.text.vocabularies import CALLS, CHATML, byte_level, letters, sentencepiece, wrap

GEMMA_LIKE = ["▁", "a", "b", "c", "▁a", "ab", "bc", "▁ab", "abc", "▁abc", "é", "aa"]


def test_every_byte_has_its_letter():
    assert [piece_bytes(letter, Spelling.BYTES) for letter in letters()] == [bytes([b]) for b in range(256)]


def test_all_added_tokens_of_a_byte_level_vocabulary_are_markup():
    assert set(build(byte_level()).markup) == {*CHATML, *CALLS}


def test_user_defined_pieces_of_sentencepiece_are_markup_only_if_the_template_writes_them():
    vocabulary = build(sentencepiece(GEMMA_LIKE, user=("<h1>", "<mark>", "\n\n"), chat_template="<mark>\n\n"))
    assert set(vocabulary.markup) == {"<unk>", "<bos>", "<turn>", "<mark>"}


def test_the_tokenizer_json_of_a_vocabulary_gives_the_same_tokenizer():
    source = byte_level()
    other = wrap(TokenizerJson(json=build(source).marked.to_str()))
    text = "hello world 123 <|im_start|> é <tool_call>"
    ours, theirs = Tokenizer.from_source(source), Tokenizer.from_source(other)
    for special in (True, False):
        assert theirs.encode(text, special=special) == ours.encode(text, special=special)
    assert dict(theirs.markup) == dict(ours.markup)
    assert theirs.decode(range(290)) == ours.decode(range(290))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {}}'])
def test_an_unreadable_tokenizer_json_is_refused(text):
    with pytest.raises(CheckpointError, match="unreadable"):
        build(wrap(TokenizerJson(json=text)))


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"}, "ByteLevel, ByteFallback, WordPiece"),
        ({"type": "WordPiece", "prefix": "##", "cleanup": True}, "unknown kind of WordPiece"),
    ],
)
def test_a_tokenizer_json_of_another_kind_is_refused(decoder, message):
    words = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "added_tokens": []}
    with pytest.raises(UnsupportedModel, match=message):
        build(wrap(TokenizerJson(json=json.dumps(words | {"decoder": decoder}))))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": "bert"}, "unknown tokenizer model: bert"),
        ({"token_types": [1]}, "1 token types for 2 tokens"),
        ({"tokens": ["a", "a"]}, "1 tokens occur twice"),
        ({"merges": ["ab"]}, "not two pieces"),
        ({"merges": ["a z"]}, "do not fit"),
        ({"model": "llama"}, "0 scores for 2 tokens"),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_refused(fields, message):
    good = {"model": "gpt2", "pre": "smollm", "tokens": ["a", "b"], "token_types": [1, 1]}
    with pytest.raises(CheckpointError, match=message):
        build(wrap(GgufVocabulary(**(good | fields))))


def test_scores_order_merges_as_in_transformers_gemma_tokenizer():
    transformers = pytest.importorskip("transformers")
    from transformers.tokenization_utils_base import generate_merges

    source = sentencepiece(GEMMA_LIKE, control=("<pad>", "<eos>", "<bos>", "<mask>"))
    vocabulary = source.vocabulary
    ids = {piece: index for index, piece in enumerate(vocabulary.tokens)}
    added = {t for t, kind in zip(vocabulary.tokens, vocabulary.token_types, strict=True) if kind != 1}
    scores = dict(zip(vocabulary.tokens, vocabulary.scores, strict=True))
    oracle = transformers.GemmaTokenizer(vocab=ids, merges=generate_merges(ids, scores, added))
    ours = Tokenizer.from_source(source)
    for text in ("abc", " abc ab a", "aaa bcabc  abab", "é x é\n", "a<eos>b", "日本 ab"):
        expected = oracle.encode(text, add_special_tokens=False)
        assert ours.encode(text, special=True) == expected
        assert ours.decode(expected, skip_special=False) == oracle.decode(expected)
