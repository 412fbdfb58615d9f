from dayzero.gateway.admission import Admission
from dayzero.gateway.metrics import Metrics
from dayzero.wire.messages import Load
from tests.gateway.stand import stand


def test_the_engines_numbers_are_those_of_its_last_step() -> None:
    load = Load()
    metrics = Metrics(lambda: load, Admission(9))
    load = Load(running=3, waiting=2, kv_blocks_used=16, kv_blocks_total=64, prefix_hit_tokens=7, preemptions=1)
    sample = metrics.registry.get_sample_value
    assert sample("dayzero_requests_running") == 3.0
    assert sample("dayzero_requests_waiting") == 2.0
    assert sample("dayzero_kv_blocks_used_ratio") == 0.25
    assert sample("dayzero_prefix_hit_tokens_total") == 7.0
    assert sample("dayzero_preemptions_total") == 1.0


def test_an_engine_without_blocks_uses_none_of_them() -> None:
    assert Metrics(Load, Admission(9)).registry.get_sample_value("dayzero_kv_blocks_used_ratio") == 0.0


def test_requests_are_counted_by_route_and_status_and_unknown_paths_make_no_series() -> None:
    this = stand()
    this.chat()
    this.chat(temperature=9)
    this.request("GET", "/no/such/path-1")
    this.request("GET", "/no/such/path-2")
    text = this.request("GET", "/metrics").text
    assert 'dayzero_requests_total{route="/v1/chat/completions",status="200"} 1.0' in text
    assert 'dayzero_requests_total{route="/v1/chat/completions",status="400"} 1.0' in text
    assert 'dayzero_requests_total{route="unmatched",status="404"} 2.0' in text
    assert "path-1" not in text


def test_tokens_are_counted() -> None:
    this = stand()
    this.chat()
    text = this.request("GET", "/metrics").text
    assert "dayzero_prompt_tokens_total 20.0" in text
    assert "dayzero_output_tokens_total 6.0" in text
    assert "dayzero_time_to_first_token_seconds_count 1.0" in text
    assert "dayzero_requests_in_flight 0.0" in text
