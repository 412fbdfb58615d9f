"""Print what is stored into docs/performance.md: `python -m bench.page`."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.bars import of, of_golden, rows
from bench.interval import ratio, shown
from bench.ops_table import SHORT_US
from bench.ops_table import tables as ops_tables
from bench.peers.table import row
from bench.stored import RESULTS, stored

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"

GRAMMAR_FAULTS = (("valid", ", refused"), ("invalid", ", accepted"))

Line = Mapping[str, Any]


def main() -> None:
    lines = [line for path in sorted(RESULTS.glob("*.jsonl")) for line in stored(path.stem)]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n".join(page(lines)) + "\n" + END + after)


def page(lines: Sequence[Line]) -> Iterator[str]:
    yield from where(lines)
    yield from ("", row("measure", "bar", "figure (95 % interval)", "", "medians"), row(*["---"] * 5))
    yield from (row(*found.cells()) for found in rows(lines))
    for section in (peers, cross_check, recorded, grammars, fidelity, ops):
        yield from section(lines)


def where(lines: Sequence[Line]) -> Iterator[str]:
    """The machines and commits that the figures are from."""
    for machine in dict.fromkeys(tuple(line["machine"].items()) for line in lines):
        about = dict(machine)
        commits = dict.fromkeys(line["commit"][:7] for line in lines if line["machine"] == about)
        yield f"{about['cpu']}, {about['cores']} cores, Python {about['python']}; commit {', '.join(commits)}"


def peers(lines: Sequence[Line]) -> Iterator[str]:
    """Every contender of a checkpoint: the medians, for scale."""
    for checkpoint in dict.fromkeys(line["settings"]["checkpoint"] for line in of(lines, "peers")):
        found = of(lines, "peers", checkpoint=checkpoint)
        measures = list(dict.fromkeys(line["settings"]["measure"] for line in found))
        units = {line["settings"]["measure"]: line["unit"] for line in found}
        yield from ("", f"## Every contender, {checkpoint}", "")
        yield row("medians", *(f"{measure}, {units[measure]}" for measure in measures))
        yield row(*["---"] * (1 + len(measures)))
        for name in dict.fromkeys(name for line in found for name in line["samples"]):
            medians = {
                line["settings"]["measure"]: f"{statistics.median(line['samples'][name]):.3g}"
                for line in found
                if name in line["samples"]
            }
            yield row(name, *(medians.get(measure, "") for measure in measures))
        failures = {name: why for line in found for name, why in line["settings"]["failures"].items()}
        yield from (f"\n{name} failed: {why}" for name, why in failures.items())


def cross_check(lines: Sequence[Line]) -> Iterator[str]:
    """Whether the peer is as fast as its own benchmark says."""
    for line in of(lines, "cross-check"):
        samples, settings = line["samples"], line["settings"]
        tokens, prompts = ratio(samples["decode"], samples["tg128"]), ratio(samples["prefill"], samples["pp1024"])
        yield ""
        yield f"{settings['measure']}, {settings['checkpoint']}, over llama-bench: decode {tokens}, prefill {prompts}."


def recorded(lines: Sequence[Line]) -> Iterator[str]:
    found = of(lines, "recorded")
    if not found:
        return
    requests = sorted({line["settings"]["requests"] for line in found})
    yield from ("", "## A recorded step", "")
    yield row("op by op over recorded", *(f"{count} request{'s' * (count > 1)}" for count in requests))
    yield row(*["---"] * (1 + len(requests)))
    names = dict.fromkeys((line["settings"]["model"].split(",")[0], line["settings"]["format"]) for line in found)
    for model, format_name in names:
        by_requests = {
            line["settings"]["requests"]: line["samples"]
            for line in found
            if line["settings"]["model"].startswith(model) and line["settings"]["format"] == format_name
        }
        yield row(f"{model} {format_name}", *(_recorded(by_requests.get(count)) for count in requests))


def _recorded(samples: Mapping[str, Sequence[float]] | None) -> str:
    if samples is None:
        return ""
    times = f"{statistics.median(samples['op by op']):.0f} and {statistics.median(samples['recorded']):.0f} us"
    return f"{ratio(samples['op by op'], samples['recorded'])}, {times}"


def grammars(lines: Sequence[Line]) -> Iterator[str]:
    """Each library that was measured, on the same schemas."""
    found = {line["settings"]["session"]: line["settings"] for line in of(lines, "grammar")}
    if not found:
        return
    schemas = next(iter(found.values()))["schemas"]
    yield from ("", "## Grammars", "", f"{schemas} schemas, and the instances of those that were compiled.", "")
    yield row(
        "library",
        "first mask: p50, p99, longest, ms",
        "mask: p50, p99, longest, us",
        "compiled",
        "valid, refused",
        "invalid, accepted",
    )
    yield row(*["---"] * 6)
    for session, settings in found.items():
        counts = settings["counts"]
        yield row(
            settings["library"],
            *(_quantiles(of(lines, "grammar", session=session, measure=measure)) for measure in ("first mask", "mask")),
            f"{counts['compiled']} of {schemas}",
            *(f"{counts[what + which]} of {counts[what]}" for what, which in GRAMMAR_FAULTS),
        )


def _quantiles(found: Sequence[Line]) -> str:
    return ", ".join(shown(statistics.median(values)) for line in found for values in line["samples"].values())


def fidelity(lines: Sequence[Line]) -> Iterator[str]:
    for degridded, title in ((False, "Fidelity"), (True, "Fidelity to the degridded golden model")):
        found = [line for line in of_golden(lines, degridded=degridded) if "kl" in line]
        if not found:
            continue
        yield from ("", f"## {title}", "")
        yield f"{found[0]['num_tokens']:,} tokens of {found[0]['num_documents']} documents."
        yield ""
        yield row("served", "mean KL", "median KL", "p99 KL", "largest KL", "same likeliest token")
        yield row(*["---"] * 6)
        for line in found:
            tail = (f"{line[name]:.2g}" for name in ("kl_median", "kl_p99", "kl_max"))
            yield row(line["served"], _estimate(line["kl"], ".3g"), *tail, _estimate(line["top_1_agreement"], ".1%"))


def _estimate(found: Mapping[str, float | None], form: str) -> str:
    if found["low"] is None:
        return f"{found['mean']:{form}}"
    return f"{found['mean']:{form}} ({found['low']:{form}} to {found['high']:{form}})"


def ops(lines: Sequence[Line]) -> Iterator[str]:
    """Of each processor, instruction set and number of threads."""
    names = ("instruction_set", "threads")
    found = of(lines, "op")
    for cpu, *fixed in dict.fromkeys((r["machine"]["cpu"], *(r["settings"][n] for n in names)) for r in found):
        here = [r for r in found if (r["machine"]["cpu"], *(r["settings"][n] for n in names)) == (cpu, *fixed)]
        yield from ("", f"## Every op, {cpu}, {fixed[0]}, {fixed[1]} threads", "")
        yield f"Share of the machine's roof, or the time of what takes less than {SHORT_US:g} us, and how many times"
        yield "faster than torch in bfloat16. `python bench/bench_ops.py --table` reprints these."
        yield from ("", *ops_tables(here))


if __name__ == "__main__":
    main()
