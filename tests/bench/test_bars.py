"""bench/bars.py: which stored figures a promise is held against, and when it is met."""

from collections.abc import Mapping, Sequence

import pytest

from bench.bars import Bar, Line, Row, rows
from bench.interval import Interval


def peers(checkpoint: str, measure: str, samples: Mapping[str, Sequence[float]], unit: str = "tokens/s") -> Line:
    settings = {"checkpoint": checkpoint, "measure": measure, "bits": {}, "failures": {}}
    return {"bench": "peers", "unit": unit, "settings": settings, "samples": samples}


def row(lines: Sequence[Line], measure: str) -> Row:
    return next(row for row in rows(lines) if row.measure == measure)


@pytest.mark.parametrize(
    ("bar", "interval", "verdict"),
    [
        (Bar(at_least=2), Interval(2.0, 2.0, 2.1), "met, interval across"),
        (Bar(at_least=2), Interval(2.5, 2.4, 2.6), "met"),
        (Bar(at_least=2), Interval(1.9, 1.8, 1.95), "missed"),
        (Bar(at_least=2), Interval(1.9, 1.8, 2.05), "missed, interval across"),
        (Bar(at_most=2), Interval(1.9, None, None), "met"),
        (Bar(at_most=2), Interval(2.1, None, None), "missed"),
        (Bar(at_most=0), Interval(-0.1, -0.2, -0.05), "met"),
        (Bar(), Interval(9.0, None, None), ""),
    ],
)
def test_a_verdict_is_that_of_the_figure_and_says_when_the_interval_reaches_across(
    bar: Bar, interval: Interval, verdict: str
) -> None:
    assert bar.verdict(interval) == verdict


def test_without_results_every_row_is_there_and_none_has_a_figure() -> None:
    found = list(rows([]))
    assert len(found) > 40
    assert all(row.found is None for row in found)
    assert {row.cells()[2] for row in found} == {"not measured"}


def test_a_single_stream_is_held_against_the_named_peer_of_the_same_session() -> None:
    lines = [
        peers("llama-1b", "decode", {"dayzero bf16": [5.0], "llama.cpp BF16": [4.0], "vllm bf16": [2.0]}),
        peers("llama-1b", "decode", {"dayzero Q4_0": [9.0], "llama.cpp Q4_0": [6.0], "openvino int4": [100.0]}),
    ]
    assert row(lines, "1B, one stream, Q4_0 over llama.cpp Q4_0").found == Interval(1.5, None, None)
    assert row(lines, "1B, one stream, bf16 over the best peer").found == Interval(1.25, None, None)
    assert row(lines, "135M, one stream, Q4_0 over llama.cpp Q4_0").found is None


def test_together_the_best_of_ours_is_held_against_the_best_peer_of_its_kind() -> None:
    samples = {
        "dayzero int8": [30.0],
        "dayzero bf16": [20.0],
        "dayzero int8 http": [24.0],
        "llama.cpp Q8_0 http": [4.0],
        "openvino bf16": [10.0],
    }
    lines = [peers("smollm2-135m", "concurrent-8", samples)]
    assert row(lines, "135M, 8 requests, in process").found == Interval(3.0, None, None)
    through_http = row(lines, "135M, 8 requests, through HTTP")
    assert through_http.found == Interval(2.4, None, None)
    assert "openvino bf16" in through_http.beside


def test_of_times_the_best_is_the_least() -> None:
    samples = {"dayzero int8": [0.2], "dayzero bf16": [0.1], "x 8": [0.4], "y 8": [0.5]}
    found = row([peers("smollm2-135m", "cached", samples, "s")], "135M, TTFT of 1,024, 960 of them cached")
    assert found.found == Interval(0.25, None, None)


def test_a_step_of_more_rows_has_the_bar_of_its_format() -> None:
    samples = {"1 row": [10.0], "16 rows of one sequence": [14.0], "16 sequences": [15.0]}
    lines = [
        {"bench": "rows", "settings": {"model": "M, random weights", "format": name}, "samples": samples}
        for name in ("int8", "q4_0")
    ]
    assert row(lines, "M, int8, a step of 16 rows over one of 1").cells()[3] == "missed"
    assert row(lines, "M, q4_0, a step of 16 rows over one of 1").cells()[3] == "met"


def test_many_rows_state_their_share_of_the_peak_of_their_own_arithmetic() -> None:
    samples = {"tokens_per_s": [2660.0], "ops_per_s": [1.02e12], "peak_ratio": [0.55]}
    settings = {"checkpoint": "smollm2-135m", "measure": "prefill", "form": "int8", "arithmetic": "int8"}
    lines = [{"bench": "peak", "settings": settings, "samples": samples}]
    found = row(lines, "135M, prompt of 1,024, int8, share of the peak of int8")
    assert found.found == Interval(0.55, None, None)
    assert found.beside == "2.66e+03 tokens/s, peak of 1.02e12 operations/s"
    assert row(lines, "1B, prompt of 1,024, share of the arithmetic peak").found is None


def test_fidelity_is_held_against_the_peer_by_the_paired_difference_of_the_same_golden_model() -> None:
    def kl(mean: float) -> Mapping[str, float | None]:
        return {"mean": mean, "low": None, "high": None}

    plain, moved = {"golden": "float32"}, {"golden": "float32, degridded, seed 0"}
    lines: list[Line] = [
        {"bench": "fidelity", "settings": plain, "served": "int8", "kl": kl(0.001)},
        {"bench": "fidelity", "settings": plain, "served": "llama.cpp Q8_0", "kl": kl(0.003)},
        {"bench": "fidelity", "settings": plain, "served": ["int8", "llama.cpp Q8_0"], "kl_difference": kl(-0.002)},
        {"bench": "fidelity", "settings": moved, "served": ["int8", "llama.cpp Q8_0"], "kl_difference": kl(0.5)},
    ]
    assert row(lines, "mean KL of int8, nats").cells()[3] == "met"
    assert row(lines, "mean KL of int8 less that of llama.cpp Q8_0").cells()[3] == "met"
    assert row(lines, "degridded, mean KL of int8 less that of llama.cpp Q8_0").cells()[3] == "missed"


def test_a_call_is_held_to_its_longest_silence_and_text_tells_what_the_machine_adds() -> None:
    def silence(measure: str, longest: float) -> Line:
        samples = {"longest": [longest], "p999": [1.1], "median": [1.0]}
        return {"bench": "silence", "unit": "times of a token", "settings": {"measure": measure}, "samples": samples}

    lines = [silence("plain text", 1.7), silence("a call of 16 KiB, qwen3-coder", 2.04)]
    text = row(lines, "longest silence over the time of a token, plain text")
    call = row(lines, "longest silence over the time of a token, a call of 16 KiB, qwen3-coder")
    assert (text.cells()[3], call.cells()[3]) == ("", "missed")
    assert call.beside == "median 1, p999 1.1"
