import pytest

from dayzero.core.events import FinishReason
from dayzero.gateway.admission import Admission
from dayzero.gateway.metrics import Metrics
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Load
from tests.gateway.stand import says, stand


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


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
SENT_TO = "<|channel|>commentary to=functions.f<|message|>"


@pytest.mark.parametrize(
    ("name", "output", "is_failure"),
    [
        ("hermes", CALL, False),
        ("hermes", "Hello.", False),
        ("hermes", CALL.replace('"f"', '"unknown"'), False),  # a call, though of no tool that was offered
        ("hermes", CALL[:30], True),
        ("hermes", CALL[:15], True),
        ("hermes", "<tool_call>Hello.", True),
        ("hermes", CALL + CALL[:30] + CALL[:30], True),  # of one output, once
        ("llama3-json", '{"name": "f", "parameters": {"a": 1}}', False),
        ("llama3-json", '{"a": 1}', False),  # an answer may begin with a brace
        ("llama3-json", '{"name": "f", "parameters": {"a"', True),
        ("harmony", SENT_TO + '{"a": 1}<|call|>', False),
        ("harmony", SENT_TO + '{"a":', True),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_outputs_with_a_call_that_could_not_be_read_are_counted_by_format(
    name: str, output: str, is_failure: bool, is_stream: bool
) -> None:
    this = stand(says(output), tool_format=FORMATS[name])
    assert this.chat(tools=[TOOL], stream=is_stream).status_code == 200
    text = this.request("GET", "/metrics").text
    assert (f'dayzero_tool_parse_failures_total{{format="{name}"}} 1.0' in text) == is_failure
    assert ("dayzero_tool_parse_failures_total{" in text) == is_failure


def test_without_tools_nothing_is_a_call_that_could_not_be_read() -> None:
    this = stand(says(CALL[:30], FinishReason.LENGTH), tool_format=FORMATS["hermes"])
    this.chat()
    assert "dayzero_tool_parse_failures_total{" not in this.request("GET", "/metrics").text
