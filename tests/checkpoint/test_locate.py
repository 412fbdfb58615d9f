import sys
from pathlib import Path

import pytest

from dayzero.checkpoint.locate import DEFAULT_HUB_ID, embedded_model, locate
from dayzero.errors import ConfigError


class FakeHub:
    """Remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, bool]] = []

    def fetch(self, repo: str, *, offline: bool, **_: object) -> Path:
        self.asked.append((repo, None, offline))
        return Path("fetched")

    def fetch_file(self, repo: str, name: str, *, offline: bool, **_: object) -> Path:
        self.asked.append((repo, name, offline))
        return Path("fetched") / name


def _locate(model: str | None, hub: FakeHub | None = None, *, offline: bool = False) -> Path:
    return locate(model, offline=offline, progress=lambda *_: None, hub=hub or FakeHub())


def test_a_local_folder_or_file_is_itself(folder: Path, write_gguf) -> None:
    assert _locate(str(folder)) == folder
    assert _locate(str(path := write_gguf())) == path


def test_a_folder_with_one_gguf_file_is_that_file(write_gguf) -> None:
    path = write_gguf()
    assert _locate(str(path.parent)) == path


def test_a_folder_with_several_gguf_files_asks_which(write_gguf) -> None:
    path = write_gguf()
    path.with_name("other.gguf").touch()
    with pytest.raises(ConfigError, match=r"several models .*2 .gguf files"):
        _locate(str(path.parent))


def test_a_hub_id_is_fetched_and_offline_is_passed_on() -> None:
    hub = FakeHub()
    assert _locate("org/name", hub, offline=True) == Path("fetched")
    assert _locate("org/name:model-Q4_K_M.gguf", hub) == Path("fetched/model-Q4_K_M.gguf")
    assert hub.asked == [("org/name", None, True), ("org/name", "model-Q4_K_M.gguf", False)]


def test_the_environment_can_say_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub = FakeHub()
    _locate("org/name", hub)
    assert hub.asked == [("org/name", None, True)]


def test_a_local_folder_wins_over_a_hub_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent.parent)
    assert _locate(f"{folder.parent.name}/{folder.name}") == Path(f"{folder.parent.name}/{folder.name}")


@pytest.mark.parametrize(
    "model",
    [
        "./model",
        "/no/such/model.gguf",
        "model.gguf",
        "a b/c",
        "",
        "../x/y",
        "org/name:../x.gguf",
        "~nobody/x",
        "x" * 5000,
        "\0",
    ],
)
def test_what_names_nothing_is_refused_with_what_can_be_named(model: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no such model: .*\nhint: name a local folder"):
        _locate(model)


def test_without_the_package_the_default_comes_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayzero.checkpoint.locate.EMBEDDED_PACKAGE", "no_such_package")
    hub = FakeHub()
    _locate(None, hub)
    assert hub.asked == [(DEFAULT_HUB_ID, None, False)]


def test_the_embedded_package_is_found_and_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "carries_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "model.gguf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("dayzero.checkpoint.locate.EMBEDDED_PACKAGE", "carries_a_model")
    assert embedded_model() == package / "model.gguf"
    assert _locate(None) == package / "model.gguf"
    assert "carries_a_model" not in sys.modules
