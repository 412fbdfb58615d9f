from pathlib import Path

import pytest

from dayzero.cli.template import read_template
from dayzero.errors import ConfigError


def test_a_template_is_read_as_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.jinja").write_bytes("{{ 'é' }}".encode())
    assert read_template(tmp_path / "a.jinja") == "{{ 'é' }}"


def test_a_template_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "latin.jinja").write_bytes(b"\xe9")
    for name, reason in (
        ("none.jinja", "FileNotFoundError"),
        (".", "IsADirectoryError"),
        ("latin.jinja", "UnicodeDecodeError"),
    ):
        with pytest.raises(ConfigError, match="chat template not readable") as error:
            read_template(tmp_path / name)
        assert error.value.hint == reason
