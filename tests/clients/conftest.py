"""The two servers that every client is tested against: one over written answers, one over the embedded model."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from dayzero.checkpoint.open import open_checkpoint
from dayzero.core.events import TokenEvent
from dayzero.grammar.formats.registry import FORMATS
from dayzero.text.tokenizer import Tokenizer
from dayzero.wire.messages import Submit
from tests.gateway.stand import SPEC, byte_tokenizer, run_live, says, stand

# Clients that would fetch something when they are imported or used.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
os.environ.update(LANGCHAIN_TRACING_V2="false", LLM_LOAD_PLUGINS="")

CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'


def answer(submit: Submit) -> list[TokenEvent]:
    """By what was asked for: a word on the rain of a result; a call; a document; else a greeting.

    A prompt with "wrong" gets days that cannot be, until it tells of a validation error.
    """
    prompt = byte_tokenizer().decode(submit.prompt)
    days = -1 if "wrong" in prompt and "alidation" not in prompt else 3
    document = '{"city": "Köln 🌧", "days": %d}' % days  # noqa: UP031 - braces
    grammar = submit.constraint.grammar if submit.constraint is not None else None
    if "rain" in prompt:
        return says("Take an umbrella.", per_event=3)(submit)
    if grammar and "<tool_call>" not in grammar:
        return says(document, per_event=3)(submit)
    if grammar or "call" in prompt:
        name = "PartialWeather" if "PartialWeather" in (grammar or "") else "Weather"  # instructor's, for streams
        return says(CALL % (name, document), per_event=7)(submit)
    return says("hello there", per_event=3)(submit)


@pytest.fixture(scope="session")
def key() -> str:
    return "sk-right"


@pytest.fixture(scope="session")
def written(key: str) -> Iterator[str]:
    """The address of a server whose model, `tiny`, gives written answers."""
    spec = msgspec.structs.replace(SPEC, max_context=4096, kv_blocks=512)
    here = stand(answer, spec=spec, tool_format=FORMATS["hermes"], api_keys=(key,))
    with run_live(here) as (host, port):
        yield f"http://{host}:{port}"


@pytest.fixture(scope="session")
def embed(written: str, key: str) -> Callable[[list[str]], list[list[float]]]:
    """Texts to vectors by that server without a client: plain JSON, and numbers in it."""

    def post(texts: list[str]) -> list[list[float]]:
        answer = httpx.post(f"{written}/v1/embeddings", json={"input": texts}, headers={"x-api-key": key})
        return [one["embedding"] for one in answer.json()["data"]]

    return post


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """The address of a server of the embedded model, SmolLM2-135M-Instruct.Q4_1."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dayzero.cli.main", "serve", "--port", "0", "--offline", "--dtype", "float32"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if match := re.match(r"listening\s+(http\S+)", line):
                yield match[1].removesuffix("/")
                break
        else:
            pytest.fail("the server did not start")
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


@pytest.fixture(scope="session")
def tokenizer_folder(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model's tokenizer as transformers reads it."""
    folder = tmp_path_factory.mktemp("tokenizer")
    vocabulary = Tokenizer.from_source(open_checkpoint(smollm2).tokenizer)._vocabulary
    vocabulary.marked.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"})
    )
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return folder
