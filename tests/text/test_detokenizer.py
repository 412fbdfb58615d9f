import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.text.detokenizer import Detokenizer
from dayzero.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level, sentencepiece

BYTES = Tokenizer.from_source(byte_level())
PIECES = Tokenizer.from_source(sentencepiece(["▁", "a", "▁a", "é"]))
IDS = {"byte-level": BYTES, "sentencepiece": PIECES}


def stream(tokenizer: Tokenizer, chunks: list[list[int]], *, skip_special: bool = True) -> list[str]:
    detokenizer = Detokenizer(tokenizer, skip_special=skip_special)
    return [*map(detokenizer.push, chunks), detokenizer.finish()]


def test_half_a_character_waits_for_the_other_half(tiny):
    first, *rest = tiny.encode("😀", special=False)
    assert stream(tiny, [[first], rest]) == ["", "😀", ""]


def test_bytes_that_can_no_longer_be_text_are_replaced_at_once(tiny):
    ids = [0xF0, 0x41]  # in this vocabulary ids below 256 are bytes
    assert stream(tiny, [[ids[0]], [ids[1]]]) == ["", "\ufffdA", ""]


def test_a_character_that_is_never_completed_is_replaced_at_the_end(tiny):
    assert stream(tiny, [[0xE6, 0x97]]) == ["", "\ufffd"]


def test_a_character_may_continue_after_a_hidden_control_token(tiny):
    middle = tiny.markup["<|im_end|>"]
    assert "".join(stream(tiny, [[0xC3, middle], [0xA9]])) == "é"
    assert "".join(stream(tiny, [[0xC3, middle], [0xA9]], skip_special=False)) == "\ufffd<|im_end|>\ufffd"


def test_no_more_than_three_bytes_are_ever_held(tiny):
    detokenizer = Detokenizer(tiny)
    shown = sum(len(detokenizer.push([byte])) for byte in [0xF0, 0x9F, 0x98] * 50)
    assert shown == 49


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
@settings(derandomize=True, max_examples=200)
@given(data=st.data())
def test_any_split_gives_the_text_of_the_whole(kind, data):
    tokenizer = IDS[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 5), max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6)))
    chunks = [ids[a:b] for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    for skip in (True, False):
        whole = tokenizer.decode(ids, skip_special=skip)
        assert "".join(stream(tokenizer, chunks, skip_special=skip)) == whole
        of_each = [tokenizer.bytes_by_id(skip_special=skip)[token] for token in ids]
        assert whole == b"".join(of_each).decode("utf-8", "replace")


def test_a_replacement_character_that_the_model_meant_is_text_like_any_other():
    """B47: it looked like half a character, and a stream waited for the rest, or lost and doubled letters."""
    text = "\ufffd한국어\ufffda"
    chunks = [[byte] for byte in text.encode()]  # ids below 256 are bytes
    shown = stream(BYTES, chunks)
    assert [piece for piece in shown if piece] == list(text)
