import asyncio
import threading
from contextlib import contextmanager

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from dayzero.cli.bench import bench
from dayzero.errors import ConfigError
from tests.workshop.bench.scripted_server import Refusal, ScriptedServer, answer

APP = typer.Typer()
APP.command()(bench)


@contextmanager
def serving(*scripts):
    """A scripted server on a thread of its own, because the command runs its own event loop."""
    started, stop = threading.Event(), None
    server = None

    async def serve():
        nonlocal stop, server
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with ScriptedServer(*scripts) as server:
            started.set()
            await stop.wait()
        return loop

    runner = asyncio.Runner()
    thread = threading.Thread(target=lambda: runner.run(serve()))
    thread.start()
    try:
        assert started.wait(30)
        yield server
    finally:
        runner.get_loop().call_soon_threadsafe(stop.set)
        thread.join(30)
        runner.close()


def run(*arguments):
    return CliRunner().invoke(APP, [str(argument) for argument in arguments])


def lines(path):
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_one_url_prints_the_tables_the_formulas_and_writes_the_lines(tmp_path):
    runs, requests = tmp_path / "runs.jsonl", tmp_path / "requests.jsonl"
    with serving(answer("a", "b")) as server:
        files = ("--output", runs, "--output-requests", requests)
        result = run(server.url, "-w", "humaneval", "--chat", "-c", 2, "-n", 6, "--goodput", "e2e:60s", *files)
    assert result.exit_code == 0, result.output
    for part in ("TTFT", "output tokens/s", "6 successful", "goodput", "formulas"):
        assert part in result.output
    (line,) = lines(runs)
    assert (line["requests"]["successful"], line["output_tokens"], line["settings"]["warmup"]) == (6, 12, 4)
    assert len(lines(requests)) == 6
    assert "def " not in requests.read_text() + runs.read_text()


def test_two_urls_print_their_ratio_over_the_rounds(tmp_path):
    runs = tmp_path / "runs.jsonl"
    with serving(answer("a", "b")) as a, serving(answer("a", "b")) as b:
        result = run(a.url, b.url, "-n", 2, "-c", 1, "--rounds", 4, "--warmup", 0, "-o", runs)
    assert result.exit_code == 0, result.output
    assert "B / A" in result.output
    *single, compared = lines(runs)
    assert [(line["round"], line["side"]) for line in single] == [
        (0, "A"), (0, "B"), (1, "B"), (1, "A"), (2, "A"), (2, "B"), (3, "B"), (3, "A"),
    ]  # fmt: skip
    assert compared["bench"] == "compare_mtbench"
    assert len(compared["ttft_s p50"]["a"]) == 4


def test_a_run_in_which_everything_failed_says_so_and_exits_1():
    with serving(Refusal(500, {"error": {"message": "boom"}})) as server:
        result = run(server.url, "-w", "humaneval", "-n", 2, "--warmup", 0)
    assert result.exit_code == 1
    assert "http 500: 2 x" in result.output
    assert "boom" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b", "c"), "too many URLs"),
        (("--body", "[1]"), "--body is not a JSON object"),
        (("--goodput", "ttft"), "not a goodput limit"),
        (("-w", "nothing"), "unknown workload"),
        (("-c", "0"), "concurrency: 0"),
        (("-o", "/nowhere/at/all.jsonl"), "cannot write"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(arguments, message):
    with serving(answer("x")) as server:
        result = run(*(() if arguments[0] == "a" else (server.url,)), *arguments)
        assert server.bodies == []
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)
