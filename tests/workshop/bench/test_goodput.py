import pytest

from dayzero.errors import ConfigError
from dayzero.workshop.bench.goodput import parse_limits


def test_limits_are_seconds_by_measure():
    assert parse_limits(["ttft:200ms itl:50ms", "e2e:1.5s,tpot:25ms"]) == pytest.approx(
        {"ttft_s": 0.2, "itl_s": 0.05, "e2e_s": 1.5, "tpot_s": 0.025}
    )
    assert parse_limits([]) == {}


@pytest.mark.parametrize("text", ["ttft:200", "ttft=200ms", "latency:3s", "ttft:-1s", "ttft:nans", "ttft"])
def test_a_limit_without_unit_or_of_an_unknown_measure_is_refused(text):
    with pytest.raises(ConfigError, match="not a goodput limit"):
        parse_limits([text])
