"""Timelines -> a report. Pure.

The docstring of each measure is its formula, and is printed with the result: tools use one name for different things.
Latencies are taken from successful requests. Percentiles interpolate linearly between the sorted values.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dayzero.workshop.bench.timeline import Status, Timeline

PERCENTILES = (50, 90, 95, 99)
_MESSAGES_PER_KIND = 3


def ttft(timeline: Timeline) -> list[float]:
    """TTFT, per request: first streamed output - sent.  [vLLM ttft, AIPerf time_to_first_token]"""
    return [timeline.outputs_s[0] - timeline.sent_s] if timeline.outputs_s else []


def itl(timeline: Timeline) -> list[float]:
    """ITL, pooled: every gap between output tokens; of several tokens in one chunk the first has the chunk's gap, the
    rest 0.  [vLLM itl, which has no zeros]"""
    num_hidden = max(0, timeline.output_tokens - len(timeline.outputs_s)) if timeline.outputs_s else 0
    return chunk_gap(timeline) + [0.0] * num_hidden


def chunk_gap(timeline: Timeline) -> list[float]:
    """chunk gap, pooled: every gap between streamed chunks with output.  [AIPerf inter_chunk_latency]"""
    times = timeline.outputs_s
    return [later - earlier for earlier, later in pairwise(times)]


def tpot(timeline: Timeline) -> list[float]:
    """TPOT, per request of 2 tokens or more: (E2E - TTFT) / (output tokens - 1).
    [vLLM tpot, AIPerf inter_token_latency]"""
    if not timeline.outputs_s or timeline.output_tokens < 2:
        return []
    return [(timeline.ended_s - timeline.outputs_s[0]) / (timeline.output_tokens - 1)]


def e2e(timeline: Timeline) -> list[float]:
    """E2E, per request: last output or finish reason, whichever is later - sent.
    [vLLM e2el, AIPerf request_latency]"""
    return [timeline.ended_s - timeline.sent_s]


def send_lag(timeline: Timeline) -> list[float]:
    """send lag, per request: sent - due. Large values: the client, or --concurrency, held the load back."""
    return [timeline.sent_s - timeline.due_s]


LATENCIES: Mapping[str, Callable[[Timeline], list[float]]] = {
    "ttft_s": ttft,
    "itl_s": itl,
    "chunk_gap_s": chunk_gap,
    "tpot_s": tpot,
    "e2e_s": e2e,
    "send_lag_s": send_lag,
}


def output_tokens_per_s(timelines: Sequence[Timeline], duration_s: float) -> float:
    """output tokens/s: output tokens that arrived, of successful and incomplete requests / duration.
    [vLLM output_throughput]"""
    return sum(t.output_tokens for t in timelines if t.status is not Status.FAILED) / duration_s


def prompt_tokens_per_s(timelines: Sequence[Timeline], duration_s: float) -> float:
    """prompt tokens/s: prompt tokens of successful requests, cached ones too / duration."""
    return sum(t.usage.prompt_tokens for t in _successful(timelines) if t.usage) / duration_s


def requests_per_s(timelines: Sequence[Timeline], duration_s: float) -> float:
    """requests/s: successful requests / duration.  [vLLM request_throughput]"""
    return len(_successful(timelines)) / duration_s


def mean_concurrency(timelines: Sequence[Timeline], duration_s: float) -> float:
    """mean concurrency: sum over all requests of (ended - sent) / duration."""
    return sum(t.ended_s - t.sent_s for t in timelines) / duration_s


RATES: Mapping[str, Callable[[Sequence[Timeline], float], float]] = {
    "output_tokens_per_s": output_tokens_per_s,
    "prompt_tokens_per_s": prompt_tokens_per_s,
    "requests_per_s": requests_per_s,
    "mean_concurrency": mean_concurrency,
}


def cached_token_ratio(timelines: Sequence[Timeline]) -> float | None:
    """cached-token ratio: cached prompt tokens / prompt tokens, where usage.prompt_tokens_details gives them."""
    told = [t.usage for t in _successful(timelines) if t.usage and t.usage.cached_tokens is not None]
    prompt_tokens = sum(usage.prompt_tokens for usage in told)
    return sum(usage.cached_tokens or 0 for usage in told) / prompt_tokens if prompt_tokens else None


def goodput_per_s(timelines: Sequence[Timeline], duration_s: float, limits_s: Mapping[str, float]) -> float:
    """goodput: successful requests that meet every limit / duration; the limit on itl or chunk_gap is for the
    request's own 99th percentile.  [vLLM request_goodput, AIPerf goodput]"""
    return sum(is_good(t, limits_s) for t in _successful(timelines)) / duration_s


def is_good(timeline: Timeline, limits_s: Mapping[str, float]) -> bool:
    """Whether a successful request meets every limit. A measure it does not have (TPOT of one token) is met."""
    return all(
        not (values := LATENCIES[name](timeline)) or np.percentile(values, 99) <= limit_s
        for name, limit_s in limits_s.items()
    )


def formula(measure: Callable[..., object]) -> str:
    """The formula of a measure, on one line."""
    return " ".join((inspect.getdoc(measure) or "").split())


@dataclass(frozen=True, slots=True)
class Distribution:
    """`percentiles` holds PERCENTILES, in that order."""

    count: int
    mean: float
    min: float
    max: float
    percentiles: tuple[float, ...]

    def percentile(self, p: int) -> float:
        return self.percentiles[PERCENTILES.index(p)]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Distribution | None":
        """None of nothing."""
        if not values:
            return None
        array = np.array(values)
        percentiles = tuple(float(p) for p in np.percentile(array, PERCENTILES))
        return cls(len(values), float(array.mean()), float(array.min()), float(array.max()), percentiles)


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often one kind of failure came, and its first distinct messages."""

    kind: str
    count: int
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run measured. `goodput_per_s` and `cached_token_ratio` None: no limits given, the server does not say."""

    duration_s: float
    num_by_status: Mapping[Status, int]
    latencies: Mapping[str, Distribution]
    rates: Mapping[str, float]
    goodput_per_s: float | None
    cached_token_ratio: float | None
    prompt_tokens: int
    output_tokens: int
    num_without_usage: int
    failures: tuple[FailureCount, ...]

    @property
    def num_successful(self) -> int:
        return self.num_by_status[Status.SUCCESSFUL]


def measure(timelines: Sequence[Timeline], limits_s: Mapping[str, float]) -> Report | None:
    """The report of a run; None if nothing was sent. Duration: first sent -> last ended."""
    if not timelines:
        return None
    successful = _successful(timelines)
    # A run so short that the clock stood still has no rates worth the name; any positive number keeps them finite.
    duration_s = max(max(t.ended_s for t in timelines) - min(t.sent_s for t in timelines), 1e-9)
    pooled = {name: Distribution.of([v for t in successful for v in of(t)]) for name, of in LATENCIES.items()}
    return Report(
        duration_s=duration_s,
        num_by_status={status: sum(t.status is status for t in timelines) for status in Status},
        latencies={name: distribution for name, distribution in pooled.items() if distribution},
        rates={name: of(timelines, duration_s) for name, of in RATES.items()},
        goodput_per_s=goodput_per_s(timelines, duration_s, limits_s) if limits_s else None,
        cached_token_ratio=cached_token_ratio(timelines),
        prompt_tokens=sum(t.usage.prompt_tokens for t in successful if t.usage),
        output_tokens=sum(t.output_tokens for t in successful),
        num_without_usage=sum(t.usage is None for t in successful),
        failures=_failures(timelines),
    )


def _successful(timelines: Sequence[Timeline]) -> list[Timeline]:
    return [t for t in timelines if t.status is Status.SUCCESSFUL]


def _failures(timelines: Sequence[Timeline]) -> tuple[FailureCount, ...]:
    failures = [t.failure for t in timelines if t.failure]
    counts = Counter(failure.kind for failure in failures)
    return tuple(
        FailureCount(kind, count, _first_messages([f.message for f in failures if f.kind == kind]))
        for kind, count in counts.most_common()
    )


def _first_messages(messages: Sequence[str]) -> tuple[str, ...]:
    return tuple(list(dict.fromkeys(message for message in messages if message))[:_MESSAGES_PER_KIND])
