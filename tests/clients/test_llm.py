"""The `llm` command and library with its OpenAI plug-in, told of a server by extra-openai-models.yaml."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llm", reason="the clients have an environment of their own: make clients")

import llm

pytestmark = pytest.mark.filterwarnings("default")

EMBEDDED = "SmolLM2-135M-Instruct.Q4_1"
FORECAST = {"city": "Köln 🌧", "days": 3}


@pytest.fixture
def folder(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What llm keeps its user's settings in."""
    entry = f"""
- model_id: tiny
  model_name: tiny
  api_base: {written}/v1
  api_key_name: dayzero
  supports_tools: true
  supports_schema: true
"""
    (tmp_path / "extra-openai-models.yaml").write_text(entry)
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    return tmp_path


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llm", *arguments],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env=os.environ,
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("option", [[], ["--no-stream"]])
def test_the_command_prints_an_answer(key: str, option: list[str]) -> None:
    done = command("--model", "tiny", "--key", key, "--no-log", *option, "hi")
    assert (done.returncode, done.stdout.strip()) == (0, "hello there"), done.stderr


@pytest.mark.usefixtures("folder")
def test_the_command_prints_a_document_of_a_schema(key: str) -> None:
    done = command("--model", "tiny", "--key", key, "--no-log", "--schema", "city, days int", "hi")
    assert json.loads(done.stdout) == FORECAST


@pytest.mark.usefixtures("folder")
def test_a_stream_comes_in_parts(key: str) -> None:
    parts = list(llm.get_model("tiny").prompt("hi", key=key))
    assert "".join(parts) == "hello there"
    assert len(parts) > 3


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_its_result_and_the_answer(key: str, stream: bool) -> None:
    asked = []

    def weather(city: str, days: int) -> str:
        asked.append({"city": city, "days": days})
        return "rain"

    tool = llm.Tool.function(weather, name="Weather")
    chain = llm.get_model("tiny").chain("call", tools=[tool], key=key, stream=stream)
    assert chain.text() == "Take an umbrella."
    assert asked == [FORECAST]


@pytest.mark.usefixtures("folder")
def test_what_the_server_refuses_is_told(key: str) -> None:
    done = command("--model", "tiny", "--key", key, "--no-log", "--option", "top_p", "0", "hi")
    assert done.returncode == 1
    assert "top_p" in done.stderr
    assert "Error" in command("--model", "tiny", "--key", "wrong", "--no-log", "hi").stderr


@pytest.mark.model
def test_the_embedded_model_answers(served: str, folder: Path) -> None:
    entry = f"- model_id: embedded\n  model_name: {EMBEDDED}\n  api_base: {served}/v1\n"
    (folder / "extra-openai-models.yaml").write_text(entry)
    answer = llm.get_model("embedded").prompt("What is the capital of France?", key="-", temperature=0, max_tokens=32)
    assert "Paris" in answer.text()
