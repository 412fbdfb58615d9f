"""`dayzero chat`, typed at and in a terminal, with the embedded model."""

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Dayzero

WAIT_S = 120.0

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("smollm2")]


@pytest.fixture
def say(dayzero: Dayzero, monkeypatch: pytest.MonkeyPatch):
    """The answers to what is typed, line by line; the last one leaves."""

    def talk(typed: bytes, *arguments: object) -> list[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        done = dayzero("chat", "--temperature", 0, *arguments)
        assert (done.code, done.err) == (0, "")
        help_, *answers = done.out.split("\n> ")
        assert "/new" in help_
        return [answer.strip() for answer in answers]

    return talk


def test_the_model_knows_what_was_said_until_new(say) -> None:
    limit = ("--max-tokens", 12)
    _, informed, *_, ignorant, end = say(
        b"My name is Bob.\nWhat is my name?\n\n/new\nWhat is my name?\n/quit\nnot read\n", *limit
    )
    assert end == ""
    assert informed != ignorant
    assert say(b"What is my name?\n", *limit)[0] == ignorant


def test_a_system_message_starts_every_conversation(say) -> None:
    arguments = ("--max-tokens", 12, "--system", "You are a pirate.")
    greeting, _, again, _ = say(b"Who are you?\n/new\nWho are you?\n", *arguments)
    assert greeting == again
    plain, _ = say(b"Who are you?\n", "--max-tokens", 12)
    assert plain != greeting


def test_a_letter_in_another_encoding_does_not_end_a_conversation(say) -> None:
    answer, end = say(b"caf\xe9\n", "--max-tokens", 2)
    assert answer
    assert end == ""


def test_what_exceeds_the_context_is_told_and_the_conversation_goes_on(say) -> None:
    told, answer, _ = say(b"word " * 9000 + b"\nHi\n", "--max-tokens", 2)
    assert "context" in told
    assert answer


def test_a_template_that_does_not_parse_is_refused(dayzero: Dayzero, tmp_path: Path) -> None:
    (tmp_path / "bad.jinja").write_text("{% if %}")
    done = dayzero("chat", "--chat-template", tmp_path / "bad.jinja")
    assert (done.code, done.out) == (3, "")
    assert "does not parse" in done.err
    assert dayzero("chat", "--chat-template", tmp_path / "none.jinja").code == 2


class Terminal:
    """The other side of a pseudo-terminal: what is shown, and the keys."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._shown = ""

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, text: str) -> str:
        """What is shown next, up to and with `text`."""
        deadline_s = time.monotonic() + WAIT_S
        while text not in self._shown:
            ready, _, _ = select.select([self._fd], [], [], deadline_s - time.monotonic())
            assert ready, f"{text!r} was never shown, but {self._shown[-300:]!r}"
            self._shown += os.read(self._fd, 4096).decode()
        before, _, self._shown = self._shown.partition(text)
        return before + text


@contextmanager
def terminal(*arguments: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """`dayzero ARGUMENTS` in a terminal of its own."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", START, *arguments]
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
            os.close(theirs)
            try:
                yield Terminal(ours), process
            finally:
                process.kill()
    finally:
        os.close(ours)


# The terminal must be the process's own for its Ctrl-C to arrive, and tests that run in the background, as of a script,
# hand down that Ctrl-C is ignored.
START = """
import fcntl, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.default_int_handler)
from dayzero.cli.main import run
sys.argv[0] = "dayzero"
run()
"""


def test_in_a_terminal_ctrl_c_stops_an_answer_and_then_leaves() -> None:
    with terminal("chat", "--max-tokens", "8000") as (shown, process):
        shown.until("Ctrl-C stops an answer")
        shown.until("\n> ")
        shown.press("Write down all numbers from one to ten thousand, in words.\r")
        shown.until("words.\r\n")
        shown.until(" ")  # the answer is on its way
        shown.press("\x03")
        shown.until("\n> ")
        assert process.poll() is None
        assert press_until_left(shown, process) == 130


def press_until_left(shown: Terminal, process: subprocess.Popen[bytes]) -> int:
    """Press Ctrl-C as a person would: again, if the first fell between the prompt and the wait for a key."""
    for _ in range(int(WAIT_S)):
        shown.press("\x03")
        try:
            return process.wait(1.0)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the chat did not leave")
