"""Prometheus metrics of one gateway and its engine, in a registry of their own.

Counters of requests and tokens are counted here, from events; what the engine knows (blocks, preemptions) is read from
its last step when somebody asks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dayzero.gateway.admission import Admission
from dayzero.wire.messages import EndpointLoad, Load

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_ITL_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """TTFT: request received to first token written. ITL: gap between consecutive tokens of one choice, as written;
    tokens that come together share a time, so the first gap is real and the rest are 0.
    """

    def __init__(
        self, load: Callable[[], Load], admission: Admission, endpoints: Mapping[str, Admission] | None = None
    ) -> None:
        """endpoints: by what the engine calls them, in its order; none: nobody asked for any to be told apart"""
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dayzero_requests", "HTTP requests answered", ["route", "status"], registry=self.registry
        )
        self.prompt_tokens = Counter("dayzero_prompt_tokens", "Prompt tokens taken in", registry=self.registry)
        self.output_tokens = Counter("dayzero_output_tokens", "Output tokens generated", registry=self.registry)
        self.embeddings = Counter("dayzero_embeddings", "Inputs embedded", registry=self.registry)
        self.time_to_first_token_s = self._seconds("dayzero_time_to_first_token_seconds", "Time to first token")
        self.inter_token_latency_s = Histogram(
            "dayzero_inter_token_latency_seconds",
            "Gap between consecutive tokens of one choice",
            buckets=_ITL_SECONDS,
            registry=self.registry,
        )
        self.request_s = self._seconds("dayzero_request_seconds", "Request received to last byte written")
        self.tool_parse_failures = Counter(
            "dayzero_tool_parse_failures",
            "Outputs in which a call began that was not read to its end, or was none",
            ["format"],
            registry=self.registry,
        )
        self.guarded_attempts = self._by_replica("dayzero_guarded_attempts", "Generations that the guard watched")
        self.collapses = self._by_replica("dayzero_collapses", "Outputs that began to repeat themselves", "tier")
        self.collapse_recoveries = self._by_replica(
            "dayzero_collapse_recoveries", "Outputs that ended well after a retry"
        )
        self.collapse_discarded_tokens = self._by_replica(
            "dayzero_collapse_discarded_tokens", "Tokens of loops, not shown"
        )
        in_flight = Gauge("dayzero_requests_in_flight", "Engine requests admitted", registry=self.registry)
        in_flight.set_function(lambda: admission.in_flight)
        self.registry.register(_EngineCollector(load, tuple(endpoints or ())))
        everywhere = (self.time_to_first_token_s, self.inter_token_latency_s)
        self._latencies = {"": Latency(everywhere[:1], everywhere[1:])}
        self._tell_apart(endpoints or {}, *everywhere)

    def latency(self, endpoint: str) -> "Latency":
        """Where the times of a choice are counted."""
        return self._latencies[endpoint]

    def _tell_apart(self, endpoints: Mapping[str, Admission], first: Histogram, later: Histogram) -> None:
        """The metrics of each endpoint. Their names are the configuration's, so there is a bound to the labels."""
        in_flight = Gauge(
            "dayzero_endpoint_requests_in_flight", "Engine requests admitted", ["endpoint"], registry=self.registry
        )
        first_here = Histogram(
            "dayzero_endpoint_time_to_first_token_seconds",
            "Time to first token",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        later_here = Histogram(
            "dayzero_endpoint_inter_token_latency_seconds",
            "Gap between consecutive tokens of one choice",
            ["endpoint"],
            buckets=_ITL_SECONDS,
            registry=self.registry,
        )
        for name, admission in endpoints.items():
            in_flight.labels(name).set_function(partial(getattr, admission, "in_flight"))
            self._latencies[name] = Latency((first, first_here.labels(name)), (later, later_here.labels(name)))

    def exposition(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self.registry)

    def _by_replica(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ["replica", *labels], registry=self.registry)

    def _seconds(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, buckets=_SECONDS, registry=self.registry)


@dataclass(frozen=True, slots=True)
class Latency:
    """The histograms that a choice's first token is counted in, and those of the later ones."""

    of_first: Sequence[Histogram]
    of_later: Sequence[Histogram]

    def first(self, seconds: float) -> None:
        for histogram in self.of_first:
            histogram.observe(seconds)

    def next(self, seconds: float) -> None:
        for histogram in self.of_later:
            histogram.observe(seconds)


class _EngineCollector(Collector):
    """The engine's raw numbers under their public names, and under those of its endpoints if it has any."""

    def __init__(self, load: Callable[[], Load], endpoints: Sequence[str]) -> None:
        self._load = load
        self._endpoints = endpoints

    def collect(self) -> Iterable[Metric]:
        load = self._load()
        used = load.kv_blocks_used / load.kv_blocks_total if load.kv_blocks_total else 0.0
        yield GaugeMetricFamily("dayzero_requests_running", "Requests in the engine's batch", load.running)
        yield GaugeMetricFamily("dayzero_requests_waiting", "Requests waiting in the engine", load.waiting)
        yield GaugeMetricFamily("dayzero_kv_blocks_used_ratio", "KV blocks held by requests", used)
        yield GaugeMetricFamily("dayzero_step_seconds", "Duration of the last step", load.step_s)
        yield CounterMetricFamily("dayzero_steps", "Steps of the engine", load.steps)
        yield CounterMetricFamily("dayzero_computed_tokens", "Tokens computed", load.computed_tokens)
        yield CounterMetricFamily("dayzero_prefix_hit_tokens", "Prompt tokens found cached", load.prefix_hit_tokens)
        yield CounterMetricFamily("dayzero_preemptions", "Requests preempted", load.preemptions)
        yield from self._by_endpoint(load)

    def _by_endpoint(self, load: Load) -> Iterable[Metric]:
        label = ["endpoint"]
        running = GaugeMetricFamily("dayzero_endpoint_requests_running", "Requests in the engine's batch", labels=label)
        waiting = GaugeMetricFamily("dayzero_endpoint_requests_waiting", "Requests waiting in the engine", labels=label)
        used = GaugeMetricFamily("dayzero_endpoint_kv_blocks_used_ratio", "KV blocks held by requests", labels=label)
        preemptions = CounterMetricFamily("dayzero_endpoint_preemptions", "Requests preempted", labels=label)
        parts = load.endpoints if self._endpoints else ()
        for name, part in zip(self._endpoints, parts or [EndpointLoad()] * len(self._endpoints), strict=True):
            running.add_metric([name], part.running)
            waiting.add_metric([name], part.waiting)
            used.add_metric([name], part.kv_blocks_used / part.kv_blocks_total if part.kv_blocks_total else 0.0)
            preemptions.add_metric([name], part.preemptions)
        return (running, waiting, used, preemptions)
