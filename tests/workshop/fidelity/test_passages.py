"""Documents from files, and what a model is shown of them."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from dayzero.checkpoint.open import open_checkpoint
from dayzero.errors import ConfigError
from dayzero.text.tokenizer import Tokenizer
from dayzero.workshop.fidelity.passages import Text, bundled, passages, read_texts


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer.from_source(open_checkpoint(smollm2).tokenizer)


TEXTS = [Text(str(i), f"Document {i} says a few words. " * (i + 1)) for i in range(12)]


def test_rows_of_a_jsonl_are_documents(tmp_path: Path):
    file = tmp_path / "set.jsonl"
    file.write_text('{"q": "one", "a": "1"}\n\n{"q": "two", "a": "2", "more": 3}\n')
    assert read_texts(file, ("q", "a")) == [Text("set.jsonl/1", "one\n1"), Text("set.jsonl/3", "two\n2")]


def test_a_plain_file_is_one_document_and_may_be_compressed(tmp_path: Path):
    file = tmp_path / "play.txt.gz"
    file.write_bytes(gzip.compress(b"To be.\nOr not."))
    assert read_texts(file) == [Text("play.txt", "To be.\nOr not.")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"txt": "x"}', "no text in field text: .*:1"),
        (b'{"text": 3}', "no text in field text: .*:1"),
        (b'{"text": "x"}\n[1]', "not a JSON object: .*:2"),
    ],
)
def test_a_row_without_text_is_refused_by_its_line(tmp_path: Path, content: bytes, message: str):
    (tmp_path / "set.jsonl").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_texts(tmp_path / "set.jsonl")


@pytest.mark.parametrize("name", ["none.txt", "broken.txt.gz"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str):
    (tmp_path / "broken.txt.gz").write_bytes(b"no gzip")
    with pytest.raises(ConfigError, match=f"cannot read .*{name}"):
        read_texts(tmp_path / name)


def test_passages_are_bounded_and_put_together_are_the_documents(tokenizer: Tokenizer):
    total = sum(len(tokenizer.encode_prompt(text.content)) for text in TEXTS)
    cut = passages(TEXTS, tokenizer, num_tokens=total, passage_tokens=16)
    assert max(len(passage.tokens) for passage in cut) == 16
    for text in TEXTS:
        tokens = [token for passage in cut if passage.document == text.name for token in passage.tokens]
        assert tokenizer.decode(tokens) == text.content


def test_there_are_exactly_as_many_tokens_as_were_asked_for(tokenizer: Tokenizer):
    cut = passages(TEXTS, tokenizer, num_tokens=101, passage_tokens=16)
    assert sum(len(passage.tokens) for passage in cut) == 101
    assert cut == passages(TEXTS, tokenizer, num_tokens=101, passage_tokens=16)


def test_too_little_text_is_refused_with_both_numbers(tokenizer: Tokenizer):
    with pytest.raises(ConfigError, match=r"too little text: \d+ tokens \(asked for 100000\)"):
        passages(TEXTS, tokenizer, num_tokens=100_000, passage_tokens=16)


def test_text_never_becomes_a_special_token(tokenizer: Tokenizer):
    (passage,) = passages([Text("x", "<|im_start|>user")], tokenizer, num_tokens=4, passage_tokens=16)
    assert not any(map(tokenizer.is_markup, passage.tokens))


def test_what_is_bundled_has_sixty_thousand_tokens_of_every_set(tokenizer: Tokenizer):
    cut = passages(bundled(), tokenizer, num_tokens=60_000, passage_tokens=1024)
    sets = Counter(passage.document.split("/")[0] for passage in cut)
    assert set(sets) == {"humaneval", "mtbench", "agentic"}
    assert len({passage.document for passage in cut}) > 150
