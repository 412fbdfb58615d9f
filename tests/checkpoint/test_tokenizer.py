import json
from pathlib import Path
from typing import Any

import pytest

from dayzero.checkpoint.tokenizer import read_eos_ids, read_tokenizer
from dayzero.errors import CheckpointError, UnsupportedModel


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_the_tokenizer_file_is_handed_on_as_it_is(folder: Path) -> None:
    source = read_tokenizer(folder, {})
    assert source.vocabulary.json == (folder / "tokenizer.json").read_text()
    assert source.named_tokens == {"bos_token": "<s>", "eos_token": "</s>"}
    assert (source.bos_token_id, source.chat_template) == (1, None)


def test_ids_come_from_the_tokenizer_file_or_the_added_tokens_of_its_config(folder: Path) -> None:
    assert read_eos_ids(folder) == {2}
    _edit(folder / "tokenizer_config.json", eos_token="<end>", added_tokens_decoder={"9": {"content": "<end>"}})
    assert read_eos_ids(folder) == {9}


def test_without_a_tokenizer_there_are_no_end_ids(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert read_eos_ids(folder) == frozenset()


def test_a_bos_that_the_tokenizer_does_not_name_comes_from_the_config(folder: Path) -> None:
    _edit(folder / "tokenizer_config.json", bos_token=None)
    assert read_tokenizer(folder, {"bos_token_id": 5}).bos_token_id == 5
    assert read_tokenizer(folder, {}).bos_token_id is None


def _template(token: str) -> dict[str, Any]:
    single = [{"SpecialToken": {"id": token}}, {"Sequence": {"id": "A"}}]
    return {"type": "TemplateProcessing", "single": single, "special_tokens": {token: {"id": token, "ids": [1]}}}


@pytest.mark.parametrize(
    ("said", "processor", "expected"),
    [
        (True, None, True),
        (False, _template("<s>"), False),
        (None, None, False),
        (None, _template("<s>"), True),
        (None, _template("[CLS]"), False),
        (None, {"type": "Sequence", "processors": [{"type": "ByteLevel"}, _template("<s>")]}, True),
        (None, {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}]}, False),
    ],
)
def test_bos_is_added_if_the_config_says_so_or_the_post_processor_does(
    folder: Path, said: bool | None, processor: Any, expected: bool
) -> None:
    _edit(folder / "tokenizer.json", post_processor=processor)
    if said is not None:
        _edit(folder / "tokenizer_config.json", add_bos_token=said)
    assert read_tokenizer(folder, {}).add_bos is expected


def test_a_template_in_a_file_of_its_own_wins(folder: Path) -> None:
    def template() -> str | None:
        return read_tokenizer(folder, {}).chat_template

    _edit(folder / "tokenizer_config.json", chat_template="in config")
    assert template() == "in config"
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "in json"}))
    assert template() == "in json"
    (folder / "chat_template.jinja").write_text("in jinja")
    assert template() == "in jinja"


def test_of_several_named_templates_the_default_is_taken(folder: Path) -> None:
    templates = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    _edit(folder / "tokenizer_config.json", chat_template=templates)
    assert read_tokenizer(folder, {}).chat_template == "d"


def test_a_missing_tokenizer_says_which_files_were_looked_for(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"no tokenizer.json\nhint: looked for tokenizer.json, tokenizer_config"):
        read_tokenizer(folder, {})


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tokenizer.json", "[]", "not a tokenizer"),
        ("tokenizer.json", '{"added_tokens": [{"id": "x"}]}', "not a tokenizer"),
        ("tokenizer.json", '{"model": ' + "[" * 100_000, "not a tokenizer"),
        ("tokenizer_config.json", '{"chat_template": 1}', "chat_template is not a string"),
        ("tokenizer_config.json", "{", "not valid JSON"),
    ],
)
def test_a_malformed_tokenizer_is_refused(folder: Path, file: str, content: str, message: str) -> None:
    (folder / file).write_text(content)
    with pytest.raises(CheckpointError, match=message):
        read_tokenizer(folder, {})


BERT = {"type": "BertProcessing", "cls": ["<s>", 1], "sep": ["</s>", 2]}
AROUND = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1]}, "</s>": {"id": "</s>", "ids": [2]}},
}


@pytest.mark.parametrize(
    "processor", [BERT, AROUND, {"type": "Sequence", "processors": [{"type": "ByteLevel"}, AROUND]}]
)
def test_what_the_post_processor_puts_around_a_text_is_told(folder: Path, processor: Any) -> None:
    """Of an encoder, which names no BOS."""
    _edit(folder / "tokenizer.json", post_processor=processor)
    _edit(folder / "tokenizer_config.json", bos_token=None)
    source = read_tokenizer(folder, {})
    assert (source.add_bos, source.bos_token_id, source.after_text) == (True, 1, (2,))
    assert "bos_token" not in source.named_tokens


@pytest.mark.parametrize("config", [{"bos_token_id": 0}, {"bos_token_id": 5, "eos_token_id": 2}])
def test_what_is_put_around_a_text_counts_whatever_is_said_of_bos(folder: Path, config: dict[str, int]) -> None:
    """Configs of BERT have been seen with the ids of other models."""
    _edit(folder / "tokenizer.json", post_processor=BERT, added_tokens=[])
    _edit(folder / "tokenizer_config.json", bos_token=None)
    source = read_tokenizer(folder, config)
    assert (source.add_bos, source.bos_token_id, source.after_text) == (True, 1, (2,))


def test_of_a_decoder_what_it_says_of_bos_counts_whatever_its_post_processor_does(folder: Path) -> None:
    _edit(folder / "tokenizer.json", post_processor=AROUND)
    _edit(folder / "tokenizer_config.json", add_bos_token=False)
    assert not read_tokenizer(folder, {}).add_bos


def test_several_tokens_before_a_text_are_refused(folder: Path) -> None:
    two = {**AROUND, "single": [AROUND["single"][0], *AROUND["single"]]}
    _edit(folder / "tokenizer.json", post_processor=two)
    _edit(folder / "tokenizer_config.json", bos_token=None)
    with pytest.raises(UnsupportedModel, match="several tokens before a text: <s>, <s>"):
        read_tokenizer(folder, {})


@pytest.mark.parametrize(
    "processor",
    [None, {"type": "BertProcessing", "cls": 5, "sep": [9]}, {"single": [1]}, {"single": []}, {"single": [{}, {}]}],
)
def test_a_post_processor_that_puts_nothing_around_a_text_adds_nothing(folder: Path, processor: Any) -> None:
    _edit(folder / "tokenizer.json", post_processor=processor)
    _edit(folder / "tokenizer_config.json", bos_token=None)
    source = read_tokenizer(folder, {})
    assert (source.add_bos, source.bos_token_id, source.after_text) == (False, None, ())
