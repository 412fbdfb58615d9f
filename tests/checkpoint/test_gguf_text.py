import pytest
from gguf import GGUFWriter

from dayzero.checkpoint.gguf import read_gguf
from dayzero.checkpoint.gguf_text import read_end_ids, read_tokenizer
from dayzero.errors import CheckpointError


def test_the_vocabulary_and_named_tokens_are_those_of_the_file(write_gguf) -> None:
    source = read_tokenizer(read_gguf(write_gguf()))
    assert (source.vocabulary.model, source.vocabulary.pre) == ("gpt2", "smollm")
    assert source.vocabulary.tokens[:4] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "t0é"]
    assert source.vocabulary.merges == ["t 1", "t1 é"]
    assert source.vocabulary.token_types[2:4] == [3, 1]
    assert source.named_tokens == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert source.chat_template == "{{ messages[0].content }}"
    assert not source.vocabulary.add_space_prefix


def test_every_id_that_ends_a_text_or_a_turn_is_an_end_id(write_gguf) -> None:
    file = read_gguf(write_gguf(edit=lambda writer: writer.add_eot_token_id(5)))
    assert read_end_ids(file) == (0, 2, 5)


@pytest.mark.parametrize(
    ("model", "pre", "said", "expected"),
    [
        ("gpt2", "smollm", None, False),
        ("gpt2", "llama-bpe", None, True),
        ("gpt2", "llama-bpe", False, False),
        ("llama", "default", None, True),
        ("gpt2", "smollm", True, True),
    ],
)
def test_bos_is_added_if_the_file_says_so_or_its_family_does(write_gguf, model, pre, said, expected) -> None:
    def edit(writer: GGUFWriter) -> None:
        writer.add_tokenizer_model(model)
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(["<s>", "a"])
        writer.add_bos_token_id(0)
        if said is not None:
            writer.add_add_bos_token(said)

    assert read_tokenizer(read_gguf(write_gguf(tokenizer=False, edit=edit))).add_bos is expected


def test_without_a_bos_token_none_is_added(write_gguf) -> None:
    def edit(writer: GGUFWriter) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(["a"])
        writer.add_token_scores([0.5])

    source = read_tokenizer(read_gguf(write_gguf(tokenizer=False, edit=edit)))
    assert (source.add_bos, source.bos_token_id, source.vocabulary.scores) == (False, None, [0.5])
    assert source.vocabulary.add_space_prefix


def test_a_file_without_a_vocabulary_opens_and_has_no_tokenizer(write_gguf) -> None:
    file = read_gguf(write_gguf(tokenizer=False))
    assert read_end_ids(file) == ()
    with pytest.raises(CheckpointError, match=r"missing tokenizer .*tokenizer.ggml.tokens"):
        read_tokenizer(file)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda writer: writer.add_unk_token_id(96), "unknown_token_id is 96 of 96 tokens"),
        (lambda writer: writer.add_token_scores([1.0]), "96 tokens, 96 types, 1 scores"),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_refused(write_gguf, edit, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_tokenizer(read_gguf(write_gguf(edit=edit)))
