import contextlib
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dayzero.cli.progress import Bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_stage_that_reports_gets_a_bar_whichever_thread_it_reports_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with contextlib.redirect_stderr(terminal), Bars() as bars, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda stage: bars(f"stage {stage}", 1, 2), range(8)))
    assert all(f"stage {stage}" in terminal.getvalue() for stage in range(8))
    assert "50%" in terminal.getvalue()


def test_nothing_is_drawn_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars() as bars:
        bars("weights", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_server_spawns_its_engine_before_it_imports_what_the_engine_need_not_wait_for() -> None:
    late = ("rich", "fastapi", "uvicorn", "tokenizers", "torch", "dayzero.checkpoint.open", "dayzero.gateway")
    code = f"""
import sys
import dayzero.cli.main, dayzero.cli.serve
print([name for name in {late} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
