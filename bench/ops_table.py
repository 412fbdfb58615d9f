"""The lines of bench_ops.py as tables for docs/performance.md."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Result = Mapping[str, Any]

SHORT_US = 10.0  # the start of a run takes so much of an op below it that its share of the roof says nothing


def tables(results: Sequence[Result]) -> list[str]:
    """Markdown. Every cell: share of the roof, or the time where it is short, then how many times faster than torch."""
    return [*_linears(results), "", *_attentions(results), "", *_others(results)]


def _linears(results: Sequence[Result]) -> Iterator[str]:
    """The four products of a layer together."""
    linears = [r for r in results if r["settings"]["op"] == "linear" and r["settings"]["weight"] != "head"]
    rows = sorted({r["settings"]["rows"] for r in linears})
    yield from _head("products of a layer", [_plural(count, "row") for count in rows])
    for model, format_name in _distinct(linears, "model", "format"):
        yield _line(f"{model} {format_name}", linears, rows, "rows", model=model, format=format_name)


def _attentions(results: Sequence[Result]) -> Iterator[str]:
    decodes = [r for r in results if r["settings"]["op"] == "attention" and r["settings"]["rows_each"] == 1]
    requests = sorted({r["settings"]["requests"] for r in decodes})
    yield from _head("attention", [_plural(count, "request") for count in requests])
    for model, behind in _distinct(decodes, "model", "behind"):
        yield _line(f"{model}, 1 row after {behind}", decodes, requests, "requests", model=model, behind=behind)
    prefills = [r for r in results if r["settings"]["op"] == "attention" and r["settings"]["rows_each"] > 1]
    for model, behind, rows in _distinct(prefills, "model", "behind", "rows_each"):
        yield _line(f"{model}, {rows} rows after {behind}", prefills, requests, "requests", model=model, behind=behind)


def _others(results: Sequence[Result]) -> Iterator[str]:
    others = [r for r in results if r["settings"]["op"] not in ("linear", "attention")]
    rows = sorted({r["settings"]["rows"] for r in others})
    yield from _head("others", [_plural(count, "row") for count in rows])
    for model, op in _distinct(others, "model", "op"):
        yield _line(f"{model} {op}", others, rows, "rows", model=model, op=op)


def _head(title: str, columns: Sequence[str]) -> Iterator[str]:
    yield f"| {title} | " + " | ".join(columns) + " |"
    yield "| --- |" + " --- |" * len(columns)


def _line(title: str, results: Sequence[Result], columns: Sequence[int], by: str, **settings: object) -> str:
    found = [r["settings"] | {"best": r["best"]} for r in results]
    row = [f for f in found if all(f[name] == value for name, value in settings.items())]
    return f"| {title} | " + " | ".join(_cell([f["best"] for f in row if f[by] == at]) for at in columns) + " |"


def _cell(ops: Sequence[Mapping[str, float]]) -> str:
    """Of ops that run one after the other."""
    if not ops:
        return ""
    native_us, roof_us, torch_us = (sum(op[name] for op in ops) for name in ("native_us", "roof_us", "torch_us"))
    share = f"{roof_us / native_us:.0%}" if native_us >= SHORT_US else f"{native_us:.1f} us"
    return f"{share}, {torch_us / native_us:.2g}x"


def _distinct(results: Sequence[Result], *names: str) -> list[tuple[Any, ...]]:
    """In the order in which they were measured."""
    return list(dict.fromkeys(tuple(r["settings"][name] for name in names) for r in results))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
