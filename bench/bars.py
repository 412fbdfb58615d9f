"""What was promised beside what was measured: a row of the page's first table for each. Pure.

A figure is a ratio or a value with its 95 % interval; whether it meets its bar is said of the figure itself, and that
the interval reaches across the bar is said, too.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.interval import Interval, interval, ratio, shown
from bench.peers.contenders import LLAMA_1B, OURS, SERVED, SMOLLM2
from bench.peers.table import Samples, best, rivals, whole

Line = Mapping[str, Any]
NOT_MEASURED = "not measured"
SHORT = {SMOLLM2: "135M", LLAMA_1B: "1B"}
KV_MIB, OVERHEAD_MIB = 256, 450


@dataclass(frozen=True, slots=True)
class Bar:
    """None of both: the figure is stated, and nothing was promised."""

    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:,g}"
        return "stated" if self.at_most is None else f"≤ {self.at_most:,g}"

    def verdict(self, found: Interval) -> str:
        limit = self.at_least if self.at_least is not None else self.at_most
        if limit is None:
            return ""
        verdict = "met" if (found.median >= limit if self.at_least is not None else found.median <= limit) else "missed"
        if found.low is not None and found.high is not None and found.low <= limit <= found.high:
            return f"{verdict}, interval across"
        return verdict


@dataclass(frozen=True, slots=True)
class Row:
    """`found` None: not measured. `beside`: what the figure is made of."""

    measure: str
    bar: Bar
    found: Interval | None
    beside: str = ""

    def cells(self) -> tuple[str, str, str, str, str]:
        if self.found is None:
            return self.measure, str(self.bar), NOT_MEASURED, "", ""
        return self.measure, str(self.bar), str(self.found), self.bar.verdict(self.found), self.beside


def rows(lines: Sequence[Line]) -> Iterator[Row]:
    """In the order of the table. `lines`: of all parts."""
    yield from _one_stream(lines)
    yield from _roofs(lines)
    yield from _best_of_each(lines)
    yield from _peaks(lines)
    yield from _rows_of_a_step(lines)
    yield from _gaps(lines)
    yield from _sampled(lines)
    yield from _fidelity(lines)
    yield from _process(lines)
    yield from _beside_transformers(lines)
    yield from _beside_ourselves(lines)


def of(lines: Sequence[Line], bench: str, **settings: object) -> list[Line]:
    return [
        line
        for line in lines
        if line["bench"] == bench and all(line["settings"].get(k) == v for k, v in settings.items())
    ]


# -- beside peers -----------------------------------------------------------------------------------------------------


def _one_stream(lines: Sequence[Line]) -> Iterator[Row]:
    llama_4, bf16 = ("llama.cpp Q4_0",), ("llama.cpp BF16", "openvino bf16", "vllm bf16")
    for checkpoint, ours, peers, bar in (
        (SMOLLM2, "Q4_0", llama_4, Bar(at_least=1.7)),
        (LLAMA_1B, "Q4_0", llama_4, Bar(at_least=1.1)),
        (SMOLLM2, "Q4_1", ("llama.cpp Q4_1",), Bar(at_least=1.5)),
        (LLAMA_1B, "Q4_1", ("llama.cpp Q4_1",), Bar()),
        (SMOLLM2, "nvfp4", llama_4, Bar()),
        (LLAMA_1B, "nvfp4", llama_4, Bar()),
        (SMOLLM2, "int8", ("llama.cpp Q8_0",), Bar(at_least=1.6)),
        (LLAMA_1B, "int8", ("llama.cpp Q8_0",), Bar(at_least=1.05)),
        (SMOLLM2, "Q8_0", ("llama.cpp Q8_0",), Bar()),
        (SMOLLM2, "bf16", bf16, Bar(at_least=1.5)),
        (LLAMA_1B, "bf16", bf16, Bar()),
    ):
        names = peers[0] if len(peers) == 1 else "the best peer"
        title = f"{SHORT[checkpoint]}, one stream, {ours} over {names}"
        yield _beside(title, bar, lines, checkpoint, "decode", ours=[f"{OURS}{ours}"], peers=peers)


def _best_of_each(lines: Sequence[Line]) -> Iterator[Row]:
    for measure, title in (("concurrent-8", "8 requests"), ("concurrent-32", "32 requests")):
        http = Bar(at_least=2.5 if measure == "concurrent-8" else 2)
        yield _beside(f"135M, {title}, in process", Bar(at_least=3), lines, SMOLLM2, measure)
        yield _beside(f"135M, {title}, through HTTP", http, lines, SMOLLM2, measure, served=True)
        yield _beside(f"1B, {title}, in process", Bar(at_least=2), lines, LLAMA_1B, measure)
    for checkpoint, short in SHORT.items():
        yield _beside(f"{short}, prompt of 1,024", Bar(at_least=2), lines, checkpoint, "prefill")
    for checkpoint, bar in ((SMOLLM2, Bar(at_most=0.5)), (LLAMA_1B, Bar())):
        yield _beside(f"{SHORT[checkpoint]}, TTFT of 1,024, 960 of them cached", bar, lines, checkpoint, "cached")


def _beside(
    title: str,
    bar: Bar,
    lines: Sequence[Line],
    checkpoint: str,
    measure: str,
    *,
    ours: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    served: bool = False,
) -> Row:
    """The best of ours over the best peer, of those that are named, in the session that has both."""
    for line in of(lines, "peers", checkpoint=checkpoint, measure=measure):
        samples, unit = whole(line["samples"]), line["unit"]
        own = best(_named(ours, {n: v for n, v in samples.items() if _is_ours(n, served=served)}), unit)
        peer = best(_named(peers, rivals(own, samples)), unit) if own else None
        if own and peer:
            medians = f"{own} {_median(samples[own])}, {peer} {_median(samples[peer])} {unit}"
            return Row(title, bar, ratio(samples[own], samples[peer]), medians)
    return Row(title, bar, None)


def _is_ours(name: str, *, served: bool) -> bool:
    return name.startswith(OURS) and name.endswith(SERVED) == served


def _named(names: Sequence[str] | None, samples: Samples) -> Samples:
    return {name: values for name, values in samples.items() if names is None or name in names}


# -- by itself --------------------------------------------------------------------------------------------------------


def _roofs(lines: Sequence[Line]) -> Iterator[Row]:
    """Of every form that was measured."""
    for checkpoint, least in ((SMOLLM2, 0.6), (LLAMA_1B, 0.8)):
        found = of(lines, "roof", checkpoint=checkpoint)
        for line in found:
            settings, samples = line["settings"], line["samples"]
            reads = f"{settings['token_bytes'] / 1e6:.0f} MB a token, read at"
            bandwidth = f"{statistics.median(samples['bytes_per_s']) / 1e9:.0f} GB/s"
            title = f"{SHORT[checkpoint]}, one stream, {settings['form']}, share of the roof"
            beside = f"{_median(samples['tokens_per_s'])} tokens/s, {reads} {bandwidth}"
            yield Row(title, Bar(at_least=least), interval(samples["roof_ratio"]), beside)
        if not found:
            yield Row(f"{SHORT[checkpoint]}, one stream, share of the roof", Bar(at_least=least), None)


def _peaks(lines: Sequence[Line]) -> Iterator[Row]:
    """Of every form that was measured."""
    for measure, what in (("prefill", "prompt of 1,024"), ("concurrent-32", "32 requests")):
        for checkpoint, short in SHORT.items():
            found = of(lines, "peak", checkpoint=checkpoint, measure=measure)
            for line in found:
                settings, samples = line["settings"], line["samples"]
                title = f"{short}, {what}, {settings['form']}, share of the peak of {settings['arithmetic']}"
                peak = f"{statistics.median(samples['ops_per_s']) / 1e12:.3g}e12 operations/s"
                beside = f"{_median(samples['tokens_per_s'])} tokens/s, peak of {peak}"
                yield Row(title, Bar(), interval(samples["peak_ratio"]), beside)
            if not found:
                yield Row(f"{short}, {what}, share of the arithmetic peak", Bar(), None)
    title = "135M, prompt of 1,024, q4_0, products' share of its time"
    beside = ("attention", "rope_and_write_kv", "gated", "add_rms_norm")
    yield _alone(title, Bar(), of(lines, "prompt", model="SmolLM2-135M", format="q4_0"), "linear", beside=beside)


def _rows_of_a_step(lines: Sequence[Line]) -> Iterator[Row]:
    found = of(lines, "rows")
    for line in found:
        samples, settings = line["samples"], line["settings"]
        one = samples["1 row"]
        bar = Bar(at_most=1.25 if settings["format"] in ("bf16", "int8", "q8_0") else 1.5)
        others = ratio(samples["16 sequences"], one)
        title = f"{settings['model'].split(',')[0]}, {settings['format']}, a step of 16 rows over one of 1"
        yield Row(title, bar, ratio(samples["16 rows of one sequence"], one), f"16 sequences of 1 row: {others}")
    if not found:
        yield Row("a step of 16 rows over one of 1", Bar(at_most=1.5), None)


def _gaps(lines: Sequence[Line]) -> Iterator[Row]:
    """What overlapping a step with the next could win at most."""
    for requests in (1, 8, 32):
        title = f"135M, {requests} request{'s' * (requests > 1)}, as-stored, share of a step outside the forward pass"
        for samples in _samples(of(lines, "gap", requests=requests, precision="as-stored")):
            outside = [1 - forward for forward in samples["forward"]]
            sampling = statistics.median(samples["sampling"])
            beside = f"of {_median(samples['step_us'])} us; sampling {sampling:.2g} of the step"
            yield Row(title, Bar(), interval(outside), beside)
            break
        else:
            yield Row(title, Bar(), None)


def _sampled(lines: Sequence[Line]) -> Iterator[Row]:
    for precision in ("as-stored", "bf16"):
        title = f"135M, 32 requests, {precision}, T 0.7 and top-p 0.95 over greedy"
        yield _paired(title, Bar(at_least=0.95), of(lines, "sampled", precision=precision), "sampled", "greedy")


def _process(lines: Sequence[Line]) -> Iterator[Row]:
    yield _alone("process start to first token, s", Bar(at_most=2.5), of(lines, "start"), "dayzero")
    title = "memory of all processes over 1.3 weights + KV pool + 450 MiB"
    for samples in _samples(of(lines, "memory")):
        limits = [1.3 * weights + KV_MIB + OVERHEAD_MIB for weights in samples["weights"]]
        beside = f"{_median(samples['all'])} of {_median(limits)} MiB PSS, {KV_MIB} of it the KV pool"
        yield Row(title, Bar(at_most=1), ratio(samples["all"], limits), beside)
        return
    yield Row(title, Bar(at_most=1), None)


def _beside_transformers(lines: Sequence[Line]) -> Iterator[Row]:
    for bench, what in (("single", "one request"), ("concurrent", "32 requests")):
        title = f"135M, {what}, bf16 over transformers in one process"
        yield _paired(title, Bar(at_least=1.5), of(lines, bench), "dayzero", "transformers")
    title = "135M, 32 requests, bf16 over a single one of transformers"
    pairs = list(zip(_samples(of(lines, "concurrent")), _samples(of(lines, "single")), strict=False))
    found = [ratio(together["dayzero"], alone["transformers"]) for together, alone in pairs]
    yield Row(title, Bar(at_least=12), found[0] if found else None)
    title = "135M, TTFT of 1,024, 960 of them seen over unseen"
    yield _paired(title, Bar(at_most=0.2), of(lines, "ttft"), "seen", "unseen")


def _beside_ourselves(lines: Sequence[Line]) -> Iterator[Row]:
    for step in ("1 token", "32 tokens", "prompt of 512"):
        title = f"torch's kernels, exact over loose: {step}"
        yield _paired(title, Bar(at_most=1.1), of(lines, "exact", step=step), "exact", "loose")
    title = "loop without a model, 64 running, tokens/s"
    yield _alone(title, Bar(at_least=50_000), of(lines, "loop"), "tokens_per_s")
    title = "wire, detokenizer, SSE and HTTP without a model, 32 streams, tokens/s"
    yield _alone(title, Bar(at_least=8000), of(lines, "wire"), "dayzero")
    yield _alone("the same, SSE chunks/s", Bar(), of(lines, "wire"), "chunks")
    yield from _answers(lines)
    yield from _grammars(lines)
    yield from _endpoints(lines)
    for dtype in ("bfloat16", "float32"):
        title = f"all-MiniLM-L6-v2 in {dtype}, texts/s over transformers"
        yield _paired(title, Bar(), of(lines, "embeddings"), f"dayzero {dtype}", f"transformers {dtype}")


def _answers(lines: Sequence[Line]) -> Iterator[Row]:
    """From tokens to server-sent events, and how evenly a client hears an argument."""
    calls = ("a call of 16 KiB, hermes", "a call of 16 KiB, qwen3-coder")
    for output in ("plain text", "reasoning, then text", *calls):
        title = f"parser, chat view and SSE, {output}, tokens/s of one core"
        found = of(lines, "parser", measure=output)
        yield _alone(title, Bar(at_least=30_000), found, "dayzero", beside=("detokenizer", "tokenizers' DecodeStream"))
    for output in ("plain text", *calls):
        title = f"longest silence over the time of a token, {output}"
        bar = Bar(at_most=1.5) if output in calls else Bar()
        yield _alone(title, bar, of(lines, "silence", measure=output), "longest", beside=("median", "p999"))


def _grammars(lines: Sequence[Line]) -> Iterator[Row]:
    """What they cost who asks for them, and everybody else."""
    step = of(lines, "gap", requests=1, precision="as-stored")
    yield _mask(of(lines, "grammar", library="dayzero", measure="mask"), step)
    for name, what in (("bound", "known before"), ("bound by new ones", "never seen")):
        title = f"135M, 32 requests with a schema each, {what}, over free ones"
        yield _paired(title, Bar(at_least=0.9), of(lines, "structured"), name, "free")
    longest = {line["settings"]["measure"]: line["samples"]["longest"] for line in of(lines, "bombs", kind="bomb")}
    title, bar = "grammar bombs, the longest until it is refused or stopped, s", Bar(at_most=2)
    worst = max(longest, key=lambda name: max(longest[name]), default="")
    yield Row(title, bar, interval(longest[worst]) if longest else None, f"{worst}, of {len(longest)}" if worst else "")
    title = "grammar bombs, memory of all processes after them over before"
    for samples in _samples(of(lines, "bombs", kind="memory")):
        before, after = statistics.median(samples["before"]), samples["after unlike ones"]
        beside = f"{_median(samples['before'])} to {_median(after)} MiB PSS"
        yield Row(title, Bar(at_most=1.1), interval([mib / before for mib in after]), beside)
        break
    else:
        yield Row(title, Bar(at_most=1.1), None)
    title = "a neighbour's tokens/s beside grammar bombs over beside ordinary grammars"
    beside = ("over alone", "longest gap")
    yield _alone(title, Bar(), of(lines, "bombs", kind="neighbour"), "over ordinary ones", beside=beside)
    title = "an answer with an ordinary grammar behind 16 bombs at once, s"
    yield _alone(title, Bar(), of(lines, "bombs", kind="flood"), "behind", beside=("alone",))


def _endpoints(lines: Sequence[Line]) -> Iterator[Row]:
    """What short requests wait for beside long prompts, and what those lose."""
    measures = {
        "ttft": "TTFT",
        "e2e": "a whole answer",
        "gap": "median gap",
        "p95 gap": "95th percentile of gaps",
        "long": "long prompts' tokens/s",
    }
    for way, what in (
        ("two endpoints", "an endpoint each"),
        ("two, capped", "the same, long ones at 32 tokens a step"),
    ):
        for measure, name in measures.items():
            title = f"short requests beside long prompts, {what}, over one for all: {name}"
            yield _paired(title, Bar(), of(lines, "endpoints", measure=measure), way, "one endpoint")


def _mask(masks: Sequence[Line], steps: Sequence[Line]) -> Row:
    """A median mask within a median step, from two benches."""
    title, bar = "mask of a grammar over a step of one request of 135M, medians", Bar(at_most=0.01)
    for mask, step in zip(_samples(masks), _samples(steps), strict=False):
        step_us = statistics.median(step["step_us"])
        beside = f"{_median(mask['p50'])} of {_median(step['step_us'])} us; p99 {_median(mask['p99'])}"
        return Row(title, bar, interval([p50 / step_us for p50 in mask["p50"]]), beside)
    return Row(title, bar, None)


def _paired(title: str, bar: Bar, lines: Sequence[Line], above: str, below: str) -> Row:
    """One variant over another, repeat by repeat."""
    for line in lines:
        samples = line["samples"]
        beside = f"{above} {_median(samples[above])}, {below} {_median(samples[below])} {line['unit']}"
        return Row(title, bar, ratio(samples[above], samples[below]), beside)
    return Row(title, bar, None)


def _alone(title: str, bar: Bar, lines: Sequence[Line], name: str, *, beside: Sequence[str] = ()) -> Row:
    for samples in _samples(lines):
        others = ", ".join(f"{other} {shown(statistics.median(samples[other]))}" for other in beside)
        return Row(title, bar, interval(samples[name]), others)
    return Row(title, bar, None)


def _samples(lines: Sequence[Line]) -> Iterator[Samples]:
    return (line["samples"] for line in lines)


# -- fidelity ---------------------------------------------------------------------------------------------------------


def _fidelity(lines: Sequence[Line]) -> Iterator[Row]:
    for degridded, prefix in ((False, ""), (True, "degridded, ")):
        found = of_golden(lines, degridded=degridded)
        means = {line["served"]: _estimate(line["kl"]) for line in found if "kl" in line}
        gaps = {tuple(line["served"]): _estimate(line["kl_difference"]) for line in found if "kl_difference" in line}
        limits = {"bf16": Bar(at_most=1e-4), "int8": Bar(at_most=0.002), "nvfp4": Bar()}
        for served, bar in (limits if not degridded else {"nvfp4": Bar()}).items():
            yield Row(f"{prefix}mean KL of {served}, nats", bar, means.get(served))
        for ours, theirs in (
            ("int8", "llama.cpp Q8_0"),
            ("dayzero Q8_0", "llama.cpp Q8_0"),
            ("dayzero Q4_0", "llama.cpp Q4_0"),
            ("nvfp4", "llama.cpp Q4_0"),
        ):
            both = {ours, theirs} <= means.keys()
            beside = f"{means[ours].median:.3g} and {means[theirs].median:.3g}" if both else ""
            title = f"{prefix}mean KL of {ours} less that of {theirs}"
            yield Row(title, Bar(at_most=0), gaps.get((ours, theirs)), beside)


def of_golden(lines: Sequence[Line], *, degridded: bool) -> list[Line]:
    return [line for line in of(lines, "fidelity") if ("degridded" in line["settings"]["golden"]) == degridded]


def _estimate(found: Mapping[str, float | None]) -> Interval:
    assert found["mean"] is not None
    return Interval(found["mean"], found["low"], found["high"])


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g}"
