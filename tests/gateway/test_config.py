from typing import Any

import pytest

from dayzero.core.spec import EndpointConfig
from dayzero.errors import ConfigError
from dayzero.gateway.config import GatewayConfig


@pytest.mark.parametrize(
    "fields",
    [
        {"served_model_name": ""},
        {"served_model_name": "a\nb"},
        {"port": -1},
        {"port": 65536},
        {"api_keys": ("",)},
        {"api_keys": (" key",)},
        {"api_keys": ("schlüssel",)},
        {"max_in_flight": 0},
        {"endpoints": (EndpointConfig(names=("a", "b")), EndpointConfig(names=("c", "a")))},
        {"endpoints": (EndpointConfig(names=("a", "")),)},
    ],
)
def test_a_config_that_cannot_work_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        GatewayConfig(**{"served_model_name": "tiny", **fields})


def test_keys_are_not_printed() -> None:
    assert "sk-secret" not in repr(GatewayConfig(served_model_name="tiny", api_keys=("sk-secret",)))
