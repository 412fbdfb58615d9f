import random
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.text.source import TokenizerSource
from dayzero.text.tokenizer import Tokenizer
from tests.text.vocabularies import CHATML, ReferenceBpe, byte_level, sentencepiece, wordpiece

SAMPLES = [
    "",
    "Hello world",
    "  leading,  double and trailing  ",
    "I'm sure they'LL've 'd it's",
    "12345 1.5e-3 ½ ² ٣٤ Ⅻ x2y3",
    "def f(x):\n\treturn x**2  # done\r\n\r\n\n",
    "日本語のテキスト、とても長い。 한국어 العربية עברית",
    "e\u0301 é \u212b 🤦🏽‍♀️ \u200b\u00a0\u3000",
    "<|im_ start|> <| |> <tool call>",
]


def random_texts(count: int) -> list[str]:
    rng = random.Random(0)
    alphabet = [
        *"abcXYZ  '.,;:!?\n\t\r0123456789<>|_/-",
        "é",
        "e\u0301",
        "ß",
        "日",
        "本",
        "😀",
        "\u00a0",
        "½",
        "'s",
        "'LL",
    ]
    return ["".join(rng.choices(alphabet, k=rng.randrange(1, 40))) for _ in range(count)]


@pytest.mark.parametrize("pre", ["smollm", "qwen2", "llama-bpe", "gpt-2"])
def test_encoding_agrees_with_the_slow_reference(pre):
    source = byte_level(pre, control=[], user=[])
    tokenizer, reference = Tokenizer.from_source(source), ReferenceBpe(source)
    for text in SAMPLES + random_texts(200):
        assert tokenizer.encode(text, special=False) == reference.encode(text), text


def test_smollm_agrees_with_the_slow_reference(smollm, smollm_source):
    reference = ReferenceBpe(smollm_source)
    for text in SAMPLES + random_texts(200):
        assert smollm.encode(text, special=True) == reference.encode(text), text


def test_smollm_gives_each_digit_its_own_token(smollm):
    digits = [smollm.encode(digit, special=False)[0] for digit in "0123456789"]
    assert smollm.encode("9876543210", special=False) == digits[::-1]


def test_qwen2_agrees_with_the_tokenizer_class_of_the_model(coder, coder_source):
    transformers = pytest.importorskip("transformers")
    oracle = qwen2_of_transformers(transformers, coder_source)
    for text in [*SAMPLES, *random_texts(200), *coder.markup]:
        assert coder.encode(text, special=True) == oracle.encode(text, add_special_tokens=False), text


def test_a_tiny_qwen2_agrees_with_the_tokenizer_class_of_the_model():
    transformers = pytest.importorskip("transformers")
    source = byte_level()
    oracle, ours = qwen2_of_transformers(transformers, source), Tokenizer.from_source(source)
    for text in [*SAMPLES, *random_texts(200), "x<|im_end|>y</tool_call>"]:
        assert ours.encode(text, special=True) == oracle.encode(text, add_special_tokens=False), text


def qwen2_of_transformers(transformers, source: TokenizerSource):
    from tokenizers import AddedToken

    vocabulary = source.vocabulary
    ids = {piece: index for index, piece in enumerate(vocabulary.tokens)}
    oracle = transformers.Qwen2Tokenizer(vocab=ids, merges=[tuple(merge.split(" ")) for merge in vocabulary.merges])
    kinds = zip(vocabulary.tokens, vocabulary.token_types, strict=True)
    oracle.add_tokens([AddedToken(t, special=kind == 3, normalized=False) for t, kind in kinds if kind in (3, 4)])
    return oracle


def test_qwen2_composes_what_a_client_sends_decomposed(tiny):
    assert tiny.encode("e\u0301", special=False) == tiny.encode("é", special=False)
    assert tiny.decode(tiny.encode("e\u0301", special=False)) == "é"


def test_llama3_takes_a_whole_word_that_no_merges_lead_to():
    source = byte_level("llama-bpe", merges=["a b", "b c", "ab c"], control=[], user=[])
    merged = Tokenizer.from_source(source)
    del source.vocabulary.merges[2]
    assert Tokenizer.from_source(source).encode("abc", special=False) == merged.encode("abc", special=False)


def test_added_tokens_are_parsed_only_when_asked(tiny):
    text = "hello<|im_end|></tool_call>"
    assert tiny.encode(text, special=True)[1:] == [tiny.markup["<|im_end|>"], tiny.markup["</tool_call>"]]
    plain = tiny.encode(text, special=False)
    assert not any(tiny.is_markup(token) for token in plain)
    assert tiny.decode(plain) == text


def test_no_markup_token_of_a_real_vocabulary_comes_from_plain_text(smollm):
    for text in smollm.markup:
        ids = smollm.encode(f"{text}x {text}", special=False)
        assert not any(smollm.is_markup(token) for token in ids)
        assert smollm.decode(ids) == f"{text}x {text}"


def test_markup_that_merges_would_spell_is_spelt_out():
    tokenizer = Tokenizer.from_source(byte_level("llama-bpe", merges=["S T", "O P"], control=["STOP"], user=[]))
    ids = tokenizer.encode("STOP", special=False)
    assert tokenizer.markup["STOP"] not in ids
    assert tokenizer.decode(ids) == "STOP"


@pytest.mark.parametrize("special", [True, False])
def test_a_prompt_starts_with_exactly_one_bos(special):
    bos = len(byte_level(control=[], user=[]).vocabulary.tokens)
    tokenizer = Tokenizer.from_source(byte_level(add_bos=True, bos_token_id=bos))
    assert tokenizer.encode_prompt("hello", special=special) == [bos, *tokenizer.encode("hello", special=special)]
    assert tokenizer.encode_prompt(f"{CHATML[0]}hello") == [bos, *tokenizer.encode("hello", special=True)]
    assert tokenizer.encode_prompt("") == [bos]


def test_a_model_that_adds_no_bos_gets_none(tiny):
    assert tiny.encode_prompt("hello") == tiny.encode("hello", special=True)


def test_token_bytes_are_raw_and_ids_beyond_the_vocabulary_have_none(tiny):
    first, second = tiny.encode("\U0001f600", special=False)[:2]
    assert (tiny.token_bytes(first), tiny.token_bytes(second)) == (b"\xf0", b"\x9f")
    assert tiny.token_bytes(tiny.markup["<|im_end|>"]) == b"<|im_end|>"
    assert tiny.token_bytes(tiny.vocab_size) == tiny.token_bytes(tiny.vocab_size + 1000) == b""


def test_unused_ids_have_no_bytes():
    source = byte_level()
    source.vocabulary.tokens.append("[PAD1]")
    source.vocabulary.token_types.append(5)
    tokenizer = Tokenizer.from_source(source)
    assert tokenizer.token_bytes(tokenizer.vocab_size - 1) == b""


def test_control_tokens_are_left_out_of_text_and_user_defined_ones_are_not(tiny):
    ids = tiny.encode("hello<|im_end|><tool_call>", special=True)
    assert tiny.decode(ids) == "hello<tool_call>"
    assert tiny.decode(ids, skip_special=False) == "hello<|im_end|><tool_call>"


def test_sentencepiece_spells_unknown_characters_in_bytes_and_keeps_runs_of_blanks():
    tokenizer = Tokenizer.from_source(sentencepiece(["▁", "a", "▁a", "\n"], user=("▁▁", "\n\n")))
    ids = tokenizer.encode("a  日\n\n\n a", special=False)
    names = [tokenizer.token_bytes(token) for token in ids]
    assert names == [b"a", b"  ", b"\xe6", b"\x97", b"\xa5", b"\n\n", b"\n", b" a"]


def test_a_gguf_may_write_blanks_of_user_defined_pieces_as_spaces():
    tokenizer = Tokenizer.from_source(sentencepiece(["▁", "a", "▁a"], user=("  ",)))
    assert [tokenizer.token_bytes(token) for token in tokenizer.encode("a  a", special=True)] == [b"a", b"  ", b"a"]


def test_text_of_a_byte_piece_is_not_that_byte():
    tokenizer = Tokenizer.from_source(sentencepiece(["A", "<", "0", "x", "4", "1", ">"]))
    assert tokenizer.decode(tokenizer.encode("<0x41>", special=True)) == "<0x41>"


def test_a_space_prefix_is_added_where_the_vocabulary_says_so():
    tokenizer = Tokenizer.from_source(sentencepiece(["▁", "a", "▁a"], add_space_prefix=True))
    assert [tokenizer.token_bytes(token) for token in tokenizer.encode("a", special=True)] == [b" a"]


def test_lone_surrogates_become_replacement_characters(tiny):
    assert tiny.decode(tiny.encode("a\ud800b", special=False)) == "a\ufffdb"


@settings(derandomize=True, max_examples=200)
@given(st.text())
def test_decoding_inverts_encoding_where_nothing_is_normalized(text):
    tokenizer = ROUND_TRIP
    assert tokenizer.decode(tokenizer.encode(text, special=True), skip_special=False) == text
    assert tokenizer.decode(tokenizer.encode(text, special=False)) == text


ROUND_TRIP = Tokenizer.from_source(byte_level("smollm"))


def test_encoding_a_long_text_lets_other_threads_run(tiny):
    started, is_done = threading.Event(), []

    def encode() -> None:
        started.set()
        tiny.encode("the quick brown fox " * 20_000, special=True)
        is_done.append(True)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(60.0)  # so that a thread runs until it lets others
    try:
        thread = threading.Thread(target=encode)
        thread.start()
        started.wait()
        assert not is_done
        thread.join()
    finally:
        sys.setswitchinterval(interval_s)


WORDS = ["hello", "world", "##ly", "[", "]", "cls", "un", "##k", "##known"]


def test_a_text_of_an_encoder_is_put_between_its_tokens_whole():
    tokenizer = Tokenizer.from_source(wordpiece(WORDS))
    hello, worldly = [5], [6, 7]
    assert tokenizer.encode_text("Hello") == [2, *hello, 3]
    assert tokenizer.encode_text("hello worldly " * 5) == [2, *(hello + worldly) * 5, 3]  # neither cut nor padded
    assert tokenizer.encode_text("") == [2, 3]


def test_markup_of_an_encoder_cannot_be_spelt_and_what_it_does_not_know_is_unknown():
    tokenizer = Tokenizer.from_source(wordpiece(WORDS))
    assert tokenizer.encode("[CLS]", special=False) == [8, 10, 9]
    assert tokenizer.encode("[CLS]", special=True) == [2]
    assert tokenizer.encode("hello zzz", special=False) == [5, 1]
    assert tokenizer.encode("[UNK]", special=False) == [8, 11, 12, 9]
    assert "[UNK]" not in tokenizer.markup


def test_words_that_were_added_to_an_encoder_are_words():
    tokenizer = Tokenizer.from_source(wordpiece(WORDS, added=["covid-19"]))
    assert tokenizer.encode("hello covid-19", special=False) == [5, 14]


def test_words_that_were_added_behind_markup_keep_their_ids():
    source = wordpiece(WORDS, added=["covid-19", "long-haul"], more_special=["<e1>", "<e2>"])
    tokenizer = Tokenizer.from_source(source)
    assert tokenizer.markup["<e2>"] == 15
    assert tokenizer.encode("covid-19 long-haul", special=False) == [16, 17]
    spelt = tokenizer.encode("\ufffe14\uffff <e1>", special=False)
    assert not {14, 15} & set(spelt)


def test_pieces_of_words_are_joined_and_words_are_not():
    tokenizer = Tokenizer.from_source(wordpiece(WORDS, added=["covid-19"]))
    assert tokenizer.decode([2, 5, 6, 7, 14, 3]) == " hello worldly covid-19"
    assert tokenizer.decode([2, 5, 3], skip_special=False) == "[CLS] hello[SEP]"
