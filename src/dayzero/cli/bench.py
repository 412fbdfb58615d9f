"""`dayzero bench`: load for one OpenAI-compatible URL, or two of them side by side."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dayzero.clock import SystemClock
from dayzero.errors import ConfigError
from dayzero.workshop.bench import report as show
from dayzero.workshop.bench.compare import Ratio, compare
from dayzero.workshop.bench.goodput import parse_limits
from dayzero.workshop.bench.measures import Report, measure
from dayzero.workshop.bench.rounds import run_rounds
from dayzero.workshop.bench.run import Driver, Load, Plan
from dayzero.workshop.bench.target import Target, base_url, choose_writer, discover, open_http
from dayzero.workshop.bench.timeline import Status, Timeline
from dayzero.workshop.bench.workloads.registry import WORKLOADS, WorkloadOptions, find

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_CONCURRENCY = 8
DEFAULT_REQUESTS = 80
DEFAULT_REQUESTS_PER_ROUND = 24

WORKLOAD_HELP = "; ".join(f"{name}: {entry.summary}" for name, entry in WORKLOADS.items())


def bench(
    urls: Annotated[list[str] | None, typer.Argument(help="one server, or two to compare (A B)")] = None,
    *,
    workload: Annotated[str, typer.Option("--workload", "-w", help=WORKLOAD_HELP)] = "mtbench",
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="closed loop: requests at once")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="open loop: sessions per second, at random times")] = None,
    burstiness: Annotated[float, typer.Option(help="of the open loop; 1: Poisson, below: burstier")] = 1.0,
    requests: Annotated[
        int | None, typer.Option("--requests", "-n", help="how many; of each round if two URLs")
    ] = None,
    duration: Annotated[float | None, typer.Option(help="seconds after which a run is cut")] = None,
    warmup: Annotated[int, typer.Option(min=0, help="requests before the clock starts")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="two URLs: interleaved rounds")] = 10,
    max_tokens: Annotated[int, typer.Option(min=1, help="where the workload sets none")] = 128,
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.0,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="outputs of full length, if the server can")] = False,
    body: Annotated[str, typer.Option(help='JSON fields to add to each request, such as {"top_k": 40}')] = "{}",
    chat: Annotated[bool, typer.Option("--chat", help="send completions as chats")] = False,
    repeat_prompts: Annotated[
        bool, typer.Option("--repeat-prompts", help="no salt: repeats may hit the cache")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="of prompts and arrivals; default: another each time")] = None,
    file: Annotated[Path | None, typer.Option(help="jsonl: the prompts")] = None,
    turns: Annotated[int, typer.Option(help="agentic: requests per session")] = 12,
    input_tokens: Annotated[int, typer.Option(help="synthetic")] = 128,
    output_tokens: Annotated[int, typer.Option(help="synthetic")] = 128,
    spread: Annotated[float, typer.Option(help="synthetic: lengths within n (1 +- spread)")] = 0.0,
    groups: Annotated[int, typer.Option(help="shared-prefix: how many prefixes")] = 8,
    prefix_tokens: Annotated[int, typer.Option(help="shared-prefix")] = 512,
    question_tokens: Annotated[int, typer.Option(help="shared-prefix")] = 64,
    goodput: Annotated[list[str] | None, typer.Option(help="limits, such as 'ttft:200ms itl:50ms'")] = None,
    model: Annotated[str | None, typer.Option(help="default: the first that is served")] = None,
    api_key: Annotated[str | None, typer.Option(help="sent as a bearer token")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds for one request")] = 600.0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="append one JSON line per run")] = None,
    output_requests: Annotated[Path | None, typer.Option(help="append one JSON line per request")] = None,
) -> None:
    """Measure a server that speaks the OpenAI API, or compare two."""
    where = urls or [DEFAULT_URL]
    if len(where) > 2:
        raise ConfigError(f"too many URLs: {len(where)}", hint="give one, or two to compare")
    if concurrency is None and rate is None:
        concurrency = DEFAULT_CONCURRENCY
    if requests is None and duration is None:
        requests = DEFAULT_REQUESTS if len(where) == 1 else DEFAULT_REQUESTS_PER_ROUND
    plan = Plan(
        workload=workload,
        options=WorkloadOptions(
            file=file,
            max_turns=turns,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            spread=spread,
            num_groups=groups,
            prefix_tokens=prefix_tokens,
            question_tokens=question_tokens,
        ),
        load=Load(
            concurrency=concurrency, rate_per_s=rate, burstiness=burstiness, requests=requests, duration_s=duration
        ),
        seed=secrets.randbelow(2**31) if seed is None else seed,
        max_tokens=max_tokens,
        temperature=temperature,
        ignore_eos=ignore_eos,
        extra=_json_object(body),
        as_chat=chat,
        repeat_prompts=repeat_prompts,
        warmup=warmup,
        timeout_s=timeout,
    )
    asked = _Asked([base_url(url) for url in where], model, api_key, rounds if len(where) == 2 else 1)
    _run_and_print(plan, asked, parse_limits(goodput or []), _Files(output, output_requests))


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where to send: one URL and one round, or two URLs and their rounds."""

    urls: list[str]
    model: str | None
    api_key: str | None = field(repr=False)
    rounds: int


@dataclass(frozen=True, slots=True)
class _Files:
    """Where to append JSON lines: one per run, one per request."""

    runs: Path | None
    requests: Path | None


@dataclass(slots=True)
class _Measured:
    """What is known so far; an interrupt leaves it as it is. A run is (round, side)."""

    targets: dict[str, Target] = field(default_factory=dict)
    prompts: str = "of the workload"
    timelines: dict[tuple[int, str], list[Timeline]] = field(default_factory=dict)
    finished: set[tuple[int, str]] = field(default_factory=set)
    wall_s: float = 0.0
    cpu_s: float = 0.0


def _run_and_print(plan: Plan, asked: _Asked, limits_s: Mapping[str, float], files: _Files) -> None:
    console = Console()
    measured = _Measured()
    for path in (files.runs, files.requests):
        if path is not None:
            show.append_lines(path, [])  # a file that cannot be written is told before the run, not after
    try:
        with _progress(console) as progress:
            asyncio.run(_drive(plan, asked, measured, _counter(progress, plan, asked)))
    except KeyboardInterrupt:
        console.print("interrupted; measured so far:")
    reports = {run: report for run, seen in measured.timelines.items() if (report := measure(seen, limits_s))}
    if not reports:
        console.print("nothing was sent")
        raise typer.Exit(1)
    _describe(console, plan, measured)
    if len(asked.urls) == 1:
        _print_report(console, plan, reports[0, "A"])
        ratios: list[Ratio] = []
    else:
        ratios = _print_comparison(console, plan, measured, reports)
    _write(files, plan, measured, reports, ratios)
    if not any(report.num_successful for report in reports.values()):
        raise typer.Exit(1)


async def _drive(plan: Plan, asked: _Asked, measured: _Measured, count: Callable[[Timeline], None]) -> None:
    """Ask the servers what they are, then run; everything lands in `measured` as it happens."""
    async with open_http(asked.api_key) as http:
        for side, url in zip("AB", asked.urls, strict=False):
            measured.targets[side] = await discover(http, url, asked.model)
        writer = None
        if find(plan.workload).writes_prompts:
            writer = await choose_writer(http, list(measured.targets.values()), text_only=plan.as_chat)
            measured.prompts = writer.description
        clock = SystemClock()
        drivers = {side: Driver(http, target, plan, writer, clock) for side, target in measured.targets.items()}
        start_s, start_cpu_s = clock.now_s(), time.process_time()

        def record(number: int, side: str, timeline: Timeline) -> None:
            measured.timelines.setdefault((number, side), []).append(timeline)
            measured.wall_s, measured.cpu_s = clock.now_s() - start_s, time.process_time() - start_cpu_s
            count(timeline)

        await run_rounds(drivers, asked.rounds, record, lambda number, side: measured.finished.add((number, side)))


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, refresh_per_second=2)


def _counter(progress: Progress, plan: Plan, asked: _Asked) -> Callable[[Timeline], None]:
    """Advance the bar by one request, and show how many failed."""
    runs = asked.rounds * len(asked.urls)
    task = progress.add_task(plan.workload, total=None if plan.load.requests is None else plan.load.requests * runs)
    failed = 0

    def count(timeline: Timeline) -> None:
        nonlocal failed
        failed += timeline.status is Status.FAILED
        progress.update(task, advance=1, description=f"{plan.workload}, {failed} failed" if failed else plan.workload)

    return count


def _describe(console: Console, plan: Plan, measured: _Measured) -> None:
    for side, target in measured.targets.items():
        console.print(f"{side}: {target.base_url}  model {target.model}  version {target.version or 'not told'}")
    load = plan.load
    if load.rate_per_s is None:
        loop = f"closed loop, {load.concurrency} at once"
    else:
        loop = f"open loop, {load.rate_per_s:g} sessions/s, burstiness {load.burstiness:g}"
    console.print(f"{plan.workload}: {loop}, prompts {measured.prompts}, seed {plan.seed}", highlight=False)
    share = measured.cpu_s / measured.wall_s if measured.wall_s else 0.0
    console.print(f"this client used {share:.0%} of one core", highlight=False)


def _print_report(console: Console, plan: Plan, report: Report) -> None:
    if report.latencies:
        console.print(show.latency_table(report, open_loop=plan.load.rate_per_s is not None))
    console.print(show.totals_table(report))
    _print_failures(console, report)
    _print_formulas(console, plan, report)


def _print_comparison(
    console: Console, plan: Plan, measured: _Measured, reports: Mapping[tuple[int, str], Report]
) -> list[Ratio]:
    """The ratios over the rounds that both sides have ended."""
    whole = [number for number, side in measured.finished if side == "A" and (number, "B") in measured.finished]
    whole = sorted(number for number in whole if {(number, "A"), (number, "B")} <= reports.keys())
    ratios = compare([reports[number, "A"] for number in whole], [reports[number, "B"] for number in whole])
    console.print(show.ratio_table(ratios))
    for (number, side), report in reports.items():
        if report.failures:
            console.print(f"round {number}, {side}:")
            _print_failures(console, report)
    _print_formulas(console, plan, next(iter(reports.values())))
    return ratios


def _print_formulas(console: Console, plan: Plan, report: Report) -> None:
    console.print("[bold]formulas[/bold]")
    for line in show.formula_lines(report, open_loop=plan.load.rate_per_s is not None):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def _print_failures(console: Console, report: Report) -> None:
    for line in show.failure_lines(report):
        console.print(line, style="red", markup=False, highlight=False)


def _write(
    files: _Files,
    plan: Plan,
    measured: _Measured,
    reports: Mapping[tuple[int, str], Report],
    ratios: list[Ratio],
) -> None:
    if files.runs is not None:
        lines = [
            show.run_line(plan, measured.targets[side], report, side=side, round=number, prompts=measured.prompts)
            for (number, side), report in reports.items()
        ]
        if ratios:
            lines.append(show.compare_line(plan, measured.targets, ratios))
        show.append_lines(files.runs, lines)
    if files.requests is not None:
        start_s = min(timeline.sent_s for seen in measured.timelines.values() for timeline in seen)
        show.append_lines(
            files.requests,
            (
                show.request_line(timeline, start_s, side=side, round=number)
                for (number, side), seen in measured.timelines.items()
                for timeline in seen
            ),
        )


def _json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"--body is not a JSON object: {error}", hint='write it like {"top_k": 40}') from None
