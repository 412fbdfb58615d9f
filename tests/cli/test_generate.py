import io
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Dayzero

GREEDY = ("--max-tokens", 3, "--temperature", 0)


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.model
@pytest.mark.usefixtures("smollm2")
def test_a_prompt_is_completed_wherever_it_comes_from(dayzero: Dayzero, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = "The capital of France is"
    done = dayzero("generate", prompt, *GREEDY)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(" Paris")
    give(monkeypatch, prompt.encode())
    assert dayzero("generate", "-", *GREEDY) == done


@pytest.mark.model
@pytest.mark.usefixtures("smollm2")
def test_chat_wraps_the_prompt_in_the_models_template(dayzero: Dayzero) -> None:
    done = dayzero("generate", "What is the capital of Germany? Answer briefly.", "--chat", "--temperature", 0)
    assert done.code == 0
    assert "Berlin" in done.out
    assert "<|im" not in done.out


@pytest.mark.parametrize(("data", "message"), [(b"", "empty prompt"), (b"\xff", "standard input is not text")])
def test_standard_input_that_is_no_prompt_is_refused(
    data: bytes, message: str, dayzero: Dayzero, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, data)
    done = dayzero("generate", "-")
    assert (done.code, done.out) == (2, "")
    assert f"error: {message}\nhint: " in done.err


def test_an_empty_prompt_is_refused(dayzero: Dayzero) -> None:
    assert dayzero("generate", "").code == 2


def test_a_hub_model_that_is_not_here_is_not_looked_for_offline(dayzero: Dayzero) -> None:
    done = dayzero("generate", "x", "--model", "nobody/nothing", "--offline")
    assert done.code == 2
    assert "nobody/nothing" in done.err


@pytest.mark.model
def test_a_dtype_that_is_not_known_is_refused_with_those_that_are(dayzero: Dayzero, tiny_folder: Path) -> None:
    done = dayzero("generate", "x", "--model", tiny_folder, "--dtype", "float8")
    assert done.code == 2
    assert "float8\nhint: known: bfloat16, float32" in done.err


@pytest.mark.model
def test_a_checkpoint_without_a_tokenizer_says_so(dayzero: Dayzero, tiny_folder: Path) -> None:
    done = dayzero("generate", "x", "--model", tiny_folder)
    assert done.code == 3
    assert "tokenizer.json" in done.err


@pytest.mark.model
def test_a_truncated_file_says_so(dayzero: Dayzero, truncated: Path) -> None:
    done = dayzero("generate", "x", "--model", truncated)
    assert done.code == 3
    assert "truncated" in done.err
