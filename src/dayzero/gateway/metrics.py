"""Prometheus metrics of one gateway and its engine, in a registry of their own.

Counters of requests and tokens are counted here, from events; what the engine knows (blocks, preemptions) is read from
its last step when somebody asks.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dayzero.gateway.admission import Admission
from dayzero.wire.messages import Load

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_ITL_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """TTFT: request received to first token written. ITL: gap between consecutive tokens of one choice, as written;
    tokens that come together share a time, so the first gap is real and the rest are 0.
    """

    def __init__(self, load: Callable[[], Load], admission: Admission) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "dayzero_requests", "HTTP requests answered", ["route", "status"], registry=self.registry
        )
        self.prompt_tokens = Counter("dayzero_prompt_tokens", "Prompt tokens taken in", registry=self.registry)
        self.output_tokens = Counter("dayzero_output_tokens", "Output tokens generated", registry=self.registry)
        self.time_to_first_token_s = self._seconds("dayzero_time_to_first_token_seconds", "Time to first token")
        self.inter_token_latency_s = Histogram(
            "dayzero_inter_token_latency_seconds",
            "Gap between consecutive tokens of one choice",
            buckets=_ITL_SECONDS,
            registry=self.registry,
        )
        self.request_s = self._seconds("dayzero_request_seconds", "Request received to last byte written")
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
        self.registry.register(_EngineCollector(load))

    def exposition(self) -> bytes:
        """All metrics in the text format."""
        return generate_latest(self.registry)

    def _by_replica(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ["replica", *labels], registry=self.registry)

    def _seconds(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, buckets=_SECONDS, registry=self.registry)


class _EngineCollector(Collector):
    """The engine's raw numbers under their public names."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self._load = load

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
