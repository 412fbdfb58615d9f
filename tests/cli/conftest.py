"""The command line, driven in this process or as a process of its own."""

import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from dayzero.cli.main import run
from tests.golden.tiny import TINY, save


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Dayzero = Callable[..., Done]


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """A command that has ended ignores Ctrl-C; the tests go on."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def dayzero(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dayzero:
    """`dayzero ARGUMENTS` in this process, as its entry point runs it."""
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["dayzero", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            run()
        captured = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return Done(exit_.value.code, captured.out, captured.err)

    return invoke


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without a tokenizer."""
    folder = tmp_path_factory.mktemp("tiny")
    save(TINY["llama"], folder)
    return folder


@pytest.fixture
def unknown_family(tiny_folder: Path, tmp_path: Path) -> Path:
    """A checkpoint that lacks nothing but somebody who knows its architecture."""
    folder = tmp_path / "unknown"
    shutil.copytree(tiny_folder, folder)
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "perceptron"}
    (folder / "config.json").write_text(json.dumps(config))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: token for token, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def truncated(smollm2: Path, tmp_path: Path) -> Path:
    """The embedded model's file as an interrupted download leaves it."""
    path = tmp_path / "truncated.gguf"
    with smollm2.open("rb") as whole:
        path.write_bytes(whole.read(8 * 2**20))
    return path
