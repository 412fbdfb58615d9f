"""Results as tables for people and as JSON lines for programs. No prompt and no output text in either."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from dayzero.errors import ConfigError
from dayzero.workshop.bench import measures
from dayzero.workshop.bench.compare import Ratio
from dayzero.workshop.bench.measures import LATENCIES, PERCENTILES, RATES, Distribution, Report, formula
from dayzero.workshop.bench.provenance import commit, machine
from dayzero.workshop.bench.run import Plan
from dayzero.workshop.bench.target import Target
from dayzero.workshop.bench.timeline import Status, Timeline

_LABELS = {
    "ttft_s": "TTFT",
    "itl_s": "ITL",
    "chunk_gap_s": "chunk gap",
    "tpot_s": "TPOT",
    "e2e_s": "E2E",
    "send_lag_s": "send lag",
}


def latency_table(report: Report, *, open_loop: bool) -> Table:
    """One row per latency; the send lag only means something in an open loop."""
    table = _table("latency (ms)")
    for head in ("count", "mean", "min", *(f"p{p}" for p in PERCENTILES), "max"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, d in report.latencies.items():
        if name != "send_lag_s" or open_loop:
            milliseconds = (d.mean, d.min, *d.percentiles, d.max)
            table.add_row(_LABELS[name], str(d.count), *(_number(1000 * value) for value in milliseconds))
    return table


def totals_table(report: Report) -> Table:
    """Rates, totals and how the requests ended."""
    table = _table("throughput")
    table.show_header = False
    table.add_column("", justify="right")
    statuses = ", ".join(f"{report.num_by_status[status]} {status}" for status in Status)
    table.add_row("requests", statuses)
    table.add_row("duration (s)", f"{report.duration_s:.2f}")
    for name, value in report.rates.items():
        table.add_row(formula(RATES[name]).split(":")[0], f"{value:.2f}")
    if report.goodput_per_s is not None:
        table.add_row("goodput (requests/s)", f"{report.goodput_per_s:.2f}")
    table.add_row("prompt tokens", str(report.prompt_tokens))
    ratio = report.cached_token_ratio
    table.add_row("cached-token ratio", "the server does not say" if ratio is None else f"{ratio:.3f}")
    counted = " (counted as chunks: the server gave no usage)" if report.num_without_usage else ""
    table.add_row("output tokens", f"{report.output_tokens}{counted}")
    return table


def failure_lines(report: Report) -> list[str]:
    """Each kind of failure with its count and first messages."""
    return [
        f"{failure.kind}: {failure.count} x" + "".join(f"\n    {message}" for message in failure.messages)
        for failure in report.failures
    ]


def formula_lines(report: Report, *, open_loop: bool) -> list[str]:
    """The formula of every measure that the tables of the report show."""
    shown = [LATENCIES[name] for name in report.latencies if name != "send_lag_s" or open_loop]
    lines = [formula(measure) for measure in shown] + [formula(RATES[name]) for name in report.rates]
    if report.goodput_per_s is not None:
        lines.append(formula(measures.goodput_per_s))
    return [*lines, formula(measures.cached_token_ratio)]


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """B / A of each measure, with the median and the spread of both sides over the rounds."""
    rounds = max((len(r.a) for r in ratios), default=0)
    table = _table(f"medians of {rounds} rounds (and the distance of their quartiles); latencies in ms")
    for head in ("A", "B", "B / A", "95 %", "better"):
        table.add_column(head, justify="right", no_wrap=True)
    for r in ratios:
        interval = "-" if r.low is None or r.high is None else f"{r.low:.3f}-{r.high:.3f}"
        scale, label = _scale(r.name)
        spreads = (_spread([scale * value for value in side]) for side in (r.a, r.b))
        table.add_row(label, *spreads, f"{r.ratio:.3f}", interval, r.better or "-")
    return table


def run_line(plan: Plan, target: Target, report: Report, **more: object) -> dict[str, object]:
    """The JSON line of one run. Times are in seconds; `machine` is the client's."""
    line = _head(f"serve_{plan.workload}", plan) | {"target": msgspec.to_builtins(target)} | more
    line |= report.rates
    line |= {"duration_s": report.duration_s, "requests": {s.value: n for s, n in report.num_by_status.items()}}
    for name in ("goodput_per_s", "cached_token_ratio", "prompt_tokens", "output_tokens", "num_without_usage"):
        line[name] = getattr(report, name)
    line["latencies"] = {name: _distribution(d) for name, d in report.latencies.items()}
    return line | {"failures": msgspec.to_builtins(report.failures)}


def compare_line(plan: Plan, targets: Mapping[str, Target], ratios: Sequence[Ratio]) -> dict[str, object]:
    """The JSON line of a comparison: every sample of every measure, so that it can be computed again."""
    line = _head(f"compare_{plan.workload}", plan) | {"targets": msgspec.to_builtins(targets)}
    for r in ratios:
        sides = {"a": list(r.a), "b": list(r.b), "a_median": float(np.median(r.a)), "b_median": float(np.median(r.b))}
        line[r.name] = sides | {"ratio_b_to_a": r.ratio, "low": r.low, "high": r.high}
    return line


def request_line(timeline: Timeline, start_s: float, **more: object) -> dict[str, object]:
    """The JSON line of one request; its times count from the start of the run."""
    line: dict[str, Any] = msgspec.to_builtins(timeline)
    for name in ("due_s", "sent_s", "ended_s"):
        line[name] = round(line[name] - start_s, 6)
    line["outputs_s"] = [round(at_s - start_s, 6) for at_s in timeline.outputs_s]
    return dict(more) | line


def append_lines(path: Path, lines: Iterable[Mapping[str, object]]) -> None:
    """Add JSON lines to a file, so that a file collects the results of many runs."""
    try:
        with path.open("ab") as file:
            file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    return table


def _head(bench: str, plan: Plan) -> dict[str, object]:
    settings: Any = msgspec.to_builtins(plan, enc_hook=str)
    return {"bench": bench, "commit": commit(), "machine": machine(), "settings": settings}


def _distribution(d: Distribution) -> dict[str, float]:
    percentiles = {f"p{p}": value for p, value in zip(PERCENTILES, d.percentiles, strict=True)}
    return {"count": d.count, "mean": d.mean, "min": d.min, **percentiles, "max": d.max}


def _scale(name: str) -> tuple[float, str]:
    """Latencies are shown in milliseconds; rates as `requests/s`."""
    first, *rest = name.split(" ")
    if first in _LABELS:
        return 1000.0, " ".join([_LABELS[first], *rest])
    return 1.0, name.removesuffix("_per_s").replace("_", " ") + "/s"


def _number(value: float) -> str:
    """At least four digits that mean something, and no wider than a narrow terminal's column."""
    return f"{value:.{2 if value < 100 else 1 if value < 1000 else 0}f}"


def _spread(values: Sequence[float]) -> str:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{_number(middle)} ({_number(high - low)})"
