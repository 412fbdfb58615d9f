import msgspec
import pytest
from rich.console import Console

from dayzero.errors import ConfigError
from dayzero.workshop.bench import report as show
from dayzero.workshop.bench.compare import compare
from dayzero.workshop.bench.measures import measure
from dayzero.workshop.bench.run import Load, Plan
from dayzero.workshop.bench.target import Target
from dayzero.workshop.bench.timeline import Failure, Status, Timeline, Usage
from dayzero.workshop.bench.workloads.registry import WorkloadOptions

PLAN = Plan(workload="humaneval", options=WorkloadOptions(), load=Load(concurrency=1, requests=1), seed=1)
TARGET = Target("http://host", "m", "1.0")
REQUEST = Timeline(
    session=4, turn=0, due_s=100.0, sent_s=100.0, ended_s=100.3, outputs_s=(100.1, 100.3), usage=Usage(8, 2, None)
)


def printed(table):
    console = Console(width=110)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def report_of(*timelines, limits_s=None):
    return measure([REQUEST, *timelines], limits_s or {})


def test_the_latency_table_is_in_milliseconds_and_shows_lag_only_for_an_open_loop():
    text = printed(show.latency_table(report_of(), open_loop=False))
    assert "100.0" in text
    assert "300.0" in text
    assert "send lag" not in text
    assert "send lag" in printed(show.latency_table(report_of(), open_loop=True))


def test_totals_say_what_the_server_does_not():
    silent = Timeline(session=0, turn=0, due_s=100.0, sent_s=100.0, ended_s=100.3, outputs_s=(100.1,))
    text = printed(show.totals_table(report_of(silent, limits_s={"ttft_s": 1.0})))
    assert "the server does not say" in text
    assert "counted as chunks" in text
    assert "goodput" in text


def test_failures_show_their_count_and_messages():
    failed = Timeline(
        session=0, turn=0, due_s=100, sent_s=100, ended_s=100, status=Status.FAILED, failure=Failure("http 500", "boom")
    )
    assert show.failure_lines(report_of(failed, failed)) == ["http 500: 2 x\n    boom"]


def test_formulas_are_printed_for_what_is_shown():
    lines = "\n".join(show.formula_lines(report_of(limits_s={"ttft_s": 1.0}), open_loop=False))
    for name in ("TTFT", "ITL", "TPOT", "E2E", "goodput", "cached-token ratio"):
        assert f"{name}" in lines
    assert "send lag" not in lines


def test_a_run_line_has_the_fixed_shape():
    line = msgspec.json.decode(msgspec.json.encode(show.run_line(PLAN, TARGET, report_of(), side="A")))
    assert line["bench"] == "serve_humaneval"
    assert {"commit", "machine", "settings", "target", "side", "latencies", "failures"} <= line.keys()
    assert line["settings"]["load"]["concurrency"] == 1
    assert line["requests"] == {"successful": 1, "failed": 0, "incomplete": 0}
    assert line["latencies"]["ttft_s"]["p50"] == pytest.approx(0.1)
    assert line["output_tokens_per_s"] == pytest.approx(2 / 0.3)


def test_a_compare_line_carries_every_sample():
    line = show.compare_line(PLAN, {"A": TARGET, "B": TARGET}, compare([report_of()] * 4, [report_of()] * 4))
    assert line["bench"] == "compare_humaneval"
    assert line["ttft_s p50"]["a"] == pytest.approx([0.1] * 4)
    assert line["ttft_s p50"]["ratio_b_to_a"] == 1.0


def test_the_ratio_table_shows_ratio_and_interval():
    text = printed(show.ratio_table(compare([report_of()] * 4, [report_of()] * 4)))
    assert "TTFT p50" in text
    assert "1.000-1.000" in text


def test_a_request_line_counts_from_the_start_of_the_run():
    line = show.request_line(REQUEST, 99.0, side="A")
    assert (line["session"], line["sent_s"], line["outputs_s"]) == (4, 1.0, [1.1, 1.3])
    assert line["side"] == "A"


def test_lines_are_appended(tmp_path):
    path = tmp_path / "out.jsonl"
    show.append_lines(path, [{"a": 1}])
    show.append_lines(path, [{"b": 2}])
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot write"):
        show.append_lines(tmp_path / "missing" / "out.jsonl", [])
