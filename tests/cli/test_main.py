import errno
import os
import re
import sys
from importlib import import_module

import pytest

import dayzero as package
from dayzero.cli.main import VERBS, run
from tests.cli.conftest import Dayzero


def test_version_is_that_of_the_package(dayzero: Dayzero) -> None:
    assert dayzero("--version") == (0, f"dayzero {package.__version__}\n", "")


def test_without_a_verb_all_verbs_are_listed(dayzero: Dayzero) -> None:
    done = dayzero()
    assert done.code == 2
    assert all(verb in done.out + done.err for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_says_what_it_does_and_names_every_option(verb: str, dayzero: Dayzero) -> None:
    function = getattr(import_module(f"dayzero.cli.{verb}"), verb)
    done = dayzero(verb, "--help")
    assert (done.code, done.err) == (0, "")
    assert function.__doc__.rstrip(".") in done.out
    named = {option.removeprefix("--").replace("-", "_") for option in re.findall(r"--[a-z-]+", done.out)}
    arguments = {"model", "prompt", "urls"}
    assert set(function.__annotations__) - arguments - {"return"} <= named


@pytest.mark.parametrize("arguments", [("serv",), ("serve", "--bogus"), ("serve", "a", "b"), ("generate",)])
def test_what_is_not_a_command_is_refused_with_usage_and_2(arguments: tuple[str, ...], dayzero: Dayzero) -> None:
    done = dayzero(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Usage" in done.err


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--port", ["-1", "65536", "http"]),
        ("--kv-memory", ["-1", "nan", "inf", "much"]),
        ("--max-context", ["0"]),
        ("--max-requests", ["0"]),
    ],
)
def test_a_number_out_of_range_is_refused_with_its_option(option: str, values: list[str], dayzero: Dayzero) -> None:
    for value in values:
        done = dayzero("serve", option, value)
        assert done.code == 2, value
        assert option in done.err


def test_an_error_is_told_in_two_lines_and_by_its_exit_code(dayzero: Dayzero) -> None:
    done = dayzero("doctor", "./nowhere")
    assert done.code == 2
    error, hint = done.err.splitlines()
    assert error == "error: no such model: ./nowhere"
    assert hint.startswith("hint: name a local folder")


def test_no_room_for_what_is_printed_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys.stdout, "write", full)
    monkeypatch.setattr(sys, "argv", ["dayzero", "--version"])
    with pytest.raises(SystemExit) as exit_:
        run()
    assert exit_.value.code == 1
    assert capsys.readouterr().err == "error: No space left on device\n"
