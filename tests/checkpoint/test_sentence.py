import json
from pathlib import Path
from typing import Any

import pytest

from dayzero.checkpoint.sentence import read_max_tokens, read_pooling
from dayzero.errors import CheckpointError, UnsupportedModel

PREFIX = "sentence_transformers.models."


def write(folder: Path, *steps: str, **modes: Any) -> Path:
    """A folder with these steps, and what its pooling says."""
    said = [{"idx": i, "type": PREFIX + step, "path": f"{i}_{step}" if i else ""} for i, step in enumerate(steps)]
    (folder / "modules.json").write_text(json.dumps(said))
    for i, step in enumerate(steps):
        if step == "Pooling":
            (folder / f"{i}_Pooling").mkdir()
            (folder / f"{i}_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8, **modes}))
    return folder


def test_a_folder_that_says_nothing_has_no_pooling_and_no_length(tmp_path: Path) -> None:
    assert read_pooling(tmp_path) is None
    assert read_max_tokens(tmp_path) is None


@pytest.mark.parametrize(
    ("mode", "pooling"),
    [
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_mean_sqrt_len_tokens", "mean"),
        ("pooling_mode_lasttoken", "last"),
    ],
)
def test_the_mode_that_is_on_is_the_pooling(tmp_path: Path, mode: str, pooling: str) -> None:
    modes = {"pooling_mode_max_tokens": False, mode: True}
    assert read_pooling(write(tmp_path, "Transformer", "Pooling", "Normalize", **modes)) == pooling


def test_the_pooling_is_that_of_the_folder_that_the_step_names(tmp_path: Path) -> None:
    steps = ("Transformer", "Normalize", "Pooling")
    assert read_pooling(write(tmp_path, *steps, pooling_mode_lasttoken=True)) == "last"


def test_steps_without_a_pooling_say_nothing_of_it(tmp_path: Path) -> None:
    assert read_pooling(write(tmp_path, "Transformer")) is None


@pytest.mark.parametrize("path", ["", "..", "/etc", "a/../..", "1_Pooling/../../x", "nowhere"])
def test_a_pooling_that_is_not_in_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"type": f"{PREFIX}Pooling", "path": path}]))
    with pytest.raises(CheckpointError):
        read_pooling(tmp_path)


@pytest.mark.parametrize(
    "modes",
    [
        {},
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode_mean_tokens": "yes"},
    ],
)
def test_a_pooling_that_we_do_not_compute_is_refused(tmp_path: Path, modes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModel, match="pooling not supported"):
        read_pooling(write(tmp_path, "Transformer", "Pooling", **modes))


def test_a_step_that_we_do_not_compute_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="Dense"):
        read_pooling(write(tmp_path, "Transformer", "Pooling", "Dense", pooling_mode_mean_tokens=True))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name": "0"}]', "[" * 100_000])
def test_steps_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"modules\.json"):
        read_pooling(tmp_path)


@pytest.mark.parametrize(
    ("said", "found"), [({"max_seq_length": 256}, 256), ({"max_seq_length": None}, None), ({}, None)]
)
def test_the_length_is_what_the_folder_says(tmp_path: Path, said: dict[str, Any], found: int | None) -> None:
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(said))
    assert read_max_tokens(tmp_path) == found


@pytest.mark.parametrize("said", [0, -1, True, "256", 2.5])
def test_a_length_that_is_none_is_refused(tmp_path: Path, said: object) -> None:
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": said}))
    with pytest.raises(CheckpointError, match="max_seq_length"):
        read_max_tokens(tmp_path)
