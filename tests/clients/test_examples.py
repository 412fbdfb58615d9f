"""The examples of docs/clients.md, run as they stand but for the address, the key and the model's name."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("litellm", reason="the clients have an environment of their own: make clients")

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
DOCUMENT = '{"city": "Köln 🌧", "days": 3}'
VALUE = "city='Köln 🌧' days=3"
CALL = "Weather {'city': 'Köln 🌧', 'days': 3}"
PRINTED = {
    "OpenAI": [VALUE, "hello there", "2 vectors of 8 numbers"],
    "Anthropic": ["hello there 12"],
    "Instructor": [VALUE],
    "LiteLLM": ["hello there", "1 vector of 8 numbers"],
    "LangChain": ["hello there", VALUE, CALL, "2 vectors"],
    "llm": ["hello there", DOCUMENT],
}


def blocks(heading: str, language: str) -> list[str]:
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def here(text: str, address: str, key: str) -> str:
    local = text.replace("http://127.0.0.1:8000", address).replace("qwen3", "tiny")
    return local.replace('"none"', f'"{key}"').replace("--key none", f"--key {key}")


def printed_by(*command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command], check=False, capture_output=True, encoding="utf-8", timeout=120, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_section_with_python_has_its_output_here() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert {name for name in headings if blocks(name, "python")} == PRINTED.keys() - {"llm"}


@pytest.mark.parametrize("heading", sorted(PRINTED.keys() - {"llm"}))
def test_the_examples_in_python_print_this(written: str, key: str, heading: str) -> None:
    codes = blocks(heading, "python")
    assert [line for code in codes for line in printed_by("-c", here(code, written, key))] == PRINTED[heading]


def test_the_commands_of_llm_print_this(
    written: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = blocks("llm", "yaml")
    (tmp_path / "extra-openai-models.yaml").write_text(here(entry, written, key))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    lines: list[str] = []
    for command in blocks("llm", "sh")[0].splitlines():
        program, *arguments = shlex.split(here(command, written, key))
        assert program == "llm"
        lines += printed_by("-m", "llm", *arguments)
    assert lines == PRINTED["llm"]


@pytest.mark.model
def test_the_command_of_lm_eval_evaluates_a_task(served: str, tokenizer_folder: Path, tmp_path: Path) -> None:
    """A task of our own, since that of the example would be fetched."""
    (tmp_path / "documents.jsonl").write_text(json.dumps({"text": "The capital of France is", "word": " Paris"}))
    task = {
        "task": "capitals",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "documents.jsonl")}},
        "test_split": "test",
        "output_type": "loglikelihood",
        "doc_to_text": "{{text}}",
        "doc_to_target": "{{word}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc"}],
    }
    (tmp_path / "capitals.yaml").write_text(json.dumps(task))
    (command,) = blocks("lm-evaluation-harness", "sh")
    local = here(command, served, "none").replace("model=tiny", "model=SmolLM2-135M-Instruct.Q4_1")
    local = local.replace("Qwen/Qwen3-4B", str(tokenizer_folder)).replace("lambada_openai", "capitals")
    program, *arguments = shlex.split(local.replace("\\\n", " "))
    assert program == "lm_eval"
    printed = printed_by("-m", "lm_eval", *arguments, "--include_path", str(tmp_path))
    assert any(re.match(r"\|capitals *\|.*\|acc *\|.*\| *1", line) for line in printed), printed
