import pytest

from dayzero.errors import UnsupportedModel
from dayzero.text.pretokenizer import pretokenizer


def cut(name: str, text: str) -> list[str]:
    return [piece for piece, _ in pretokenizer(name).split.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("gpt-2", ["a", "Ġ12345", "Ġb"]),
        ("smollm", ["a", "Ġ", "1", "2", "3", "4", "5", "Ġb"]),
        ("qwen2", ["a", "Ġ", "1", "2", "3", "4", "5", "Ġb"]),
        ("llama-bpe", ["a", "Ġ", "123", "45", "Ġb"]),
    ],
)
def test_digits_are_cut_as_the_model_was_trained(name, pieces):
    assert cut(name, "a 12345 b") == pieces


def test_line_ends_stay_with_punctuation_only_in_the_newer_pattern():
    assert cut("qwen2", "x;\n\ny") == ["x", ";ĊĊ", "y"]
    assert cut("smollm", "x;\n\ny") == ["x", ";", "Ċ", "Ċ", "y"]


@pytest.mark.parametrize("name", ["", "default", "deepseek-llm", "Qwen2"])
def test_an_unknown_name_is_refused_with_the_list_of_known_ones(name):
    with pytest.raises(UnsupportedModel, match=r"unknown pre-tokenizer(.|\n)*llama-bpe, qwen2, smollm"):
        pretokenizer(name)
