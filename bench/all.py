"""Run every benchmark and print its figures into docs/performance.md: `python bench/all.py [--from-results]`.

Results go to bench/results/latest.jsonl, one line each. On two quiet cores it takes about a quarter of an hour.
`--from-results` only prints the tables again. A ratio is the median over interleaved repeats, with its middle half.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "latest.jsonl"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
SCRIPTS = ("bench_engine.py", "bench_exact.py", "bench_sampling.py", "bench_loop.py", "bench_serve.py")

Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--from-results", action="store_true", help="measure nothing")
    if not parser.parse_args().from_results:
        measure()
    results = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join(tables(results)) + END + after)


def measure() -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    lines = []
    for script in SCRIPTS:
        sys.stderr.write(f"{script}\n")
        found = subprocess.run(
            [sys.executable, str(ROOT / "bench" / script)], stdout=subprocess.PIPE, text=True, check=True
        )
        lines += [line for line in found.stdout.splitlines() if line.startswith("{")]
    RESULTS.write_text("\n".join(lines) + "\n")


def find(results: Sequence[Result], bench: str, **settings: object) -> Result:
    return next(
        r for r in results if r["bench"] == bench and all(r["settings"].get(k) == v for k, v in settings.items())
    )


def ratio(result: Result, above: str, below: str) -> str:
    """`above` over `below`, repeat by repeat."""
    pairs = zip(result["samples"][above], result["samples"][below], strict=True)
    return spread([a / b for a, b in pairs])


def spread(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    if len(values) < 3:
        return f"{middle:.3g}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def tables(results: Sequence[Result]) -> list[str]:
    machine = results[0]["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, commit {results[0]['commit'][:7]}"
    return [where, "", *beside_transformers(results), "", *alone(results), ""]


def beside_transformers(results: Sequence[Result]) -> list[str]:
    single, concurrent = find(results, "single"), find(results, "concurrent")
    ttft, sampled = find(results, "ttft"), find(results, "sampled")
    over_single = [
        ours / theirs
        for ours, theirs in zip(concurrent["samples"]["dayzero"], single["samples"]["transformers"], strict=True)
    ]
    rates = f"{single['median']['dayzero']:.1f} and {single['median']['transformers']:.1f} tokens/s"
    many = f"{concurrent['median']['dayzero']:.0f} and {concurrent['median']['transformers']:.0f} tokens/s"
    times = f"{ttft['median']['seen']:.3f} and {ttft['median']['unseen']:.3f} s"
    drawn = f"{sampled['median']['sampled']:.0f} and {sampled['median']['greedy']:.0f} tokens/s"
    return [
        row("in one run, interleaved", "medians", "ratio (middle half)", "bar"),
        row("---", "---", "---", "---"),
        row("one request, against transformers", rates, ratio(single, "dayzero", "transformers"), "≥ 1.5"),
        row("32 requests, against its batch of 32", many, ratio(concurrent, "dayzero", "transformers"), "≥ 1.5"),
        row("32 requests, against its single stream", "", spread(over_single), "≥ 12"),
        row("TTFT of 1,024 tokens, 960 of them seen, against unseen", times, ratio(ttft, "seen", "unseen"), "≤ 0.2"),
        row("32 requests at T 0.7, top-p 0.95, against greedy", drawn, ratio(sampled, "sampled", "greedy"), "≥ 0.9"),
        *(
            row(f"exact against loose: {name}", "", ratio(find(results, "exact", step=name), "exact", "loose"), "≤ 1.1")
            for name in ("1 token", "32 tokens", "prompt of 512")
        ),
    ]


def alone(results: Sequence[Result]) -> list[str]:
    loop, wire = find(results, "loop"), find(results, "wire")
    start, memory = find(results, "start"), find(results, "memory")
    real_step_s = 32 / find(results, "concurrent")["median"]["dayzero"]
    share = loop["median"]["step_cpu_s"] / real_step_s
    weights_mib = memory["median"]["weights"]
    limit = 1.3 * weights_mib + 256 + 450
    return [
        row("by itself, client on the same cores", "measured (middle half)", "bar"),
        row("---", "---", "---"),
        row("loop without a model, 64 running, tokens/s", spread(loop["samples"]["tokens_per_s"]), "≥ 50,000"),
        row("its CPU time as a share of a real step of 32", f"{share:.1%}", ""),
        row(
            "through wire, detokenizer, SSE and HTTP, 32 streams, tokens/s",
            spread(wire["samples"]["dayzero"]),
            "≥ 8,000",
        ),
        row("the same, SSE chunks/s", spread(wire["samples"]["chunks"]), ""),
        row("process start to first token, s", spread(start["samples"]["dayzero"]), "≤ 5"),
        row(
            "memory of all processes, MiB (PSS), 256 MiB of it the KV pool",
            f"{memory['median']['all']:.0f}",
            f"≤ {limit:.0f}",
        ),
    ]


if __name__ == "__main__":
    main()
