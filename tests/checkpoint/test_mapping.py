from pathlib import Path

import pytest

from dayzero.checkpoint import mapping
from dayzero.errors import CheckpointError


def test_a_mapping_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert memoryview(mapping.map_file(tmp_path / "f")).readonly


def test_an_empty_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(CheckpointError, match=r"empty file.*\nhint: .*fetch the file again"):
        mapping.map_file(tmp_path / "f")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "not UTF-8"),
        (b"{", "not valid JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"a": 1, "a": 2}', "key occurs twice .*: a"),
        (b'{"b": {"a": 1, "a": 2}}', "key occurs twice .*: a"),
        (b'{"a": ' + b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_bad_json_file_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        mapping.read_json_object(tmp_path / "config.json")
    assert "config.json" in caught.value.message


def test_a_text_file_beyond_the_cap_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "MAX_JSON_BYTES", 3)
    (tmp_path / "config.json").write_text("{}  ")
    with pytest.raises(CheckpointError, match=r"4 bytes \(limit: 3\)"):
        mapping.read_json_object(tmp_path / "config.json")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read .*absent"):
        mapping.map_file(tmp_path / "absent")
    with pytest.raises(CheckpointError, match=r"cannot read .*absent"):
        mapping.read_text(tmp_path / "absent")
