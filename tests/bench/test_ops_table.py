"""bench/ops_table.py: what a cell says of the ops that run one after the other."""

from collections.abc import Mapping
from typing import Any

import pytest

from bench.ops_table import tables


def product(weight: str, native_us: float, roof_us: float, torch_us: float) -> Mapping[str, Any]:
    settings = {"op": "linear", "model": "M", "format": "int8", "weight": weight, "rows": 1}
    return {"settings": settings, "best": {"native_us": native_us, "roof_us": roof_us, "torch_us": torch_us}}


@pytest.mark.parametrize(
    ("native_us", "cell"), [(100.0, "40%, 1.5x"), (4.0, "8.0 us, 38x")], ids=["long", "too short for a share"]
)
def test_products_of_a_layer_add_up_and_the_head_stands_apart(native_us: float, cell: str) -> None:
    ops = [
        product("down", native_us, roof_us=30.0, torch_us=100.0),
        product("out", native_us, roof_us=50.0, torch_us=200.0),
        product("head", 1e6, roof_us=1.0, torch_us=1.0),
    ]
    assert f"| M int8 | {cell} |" in tables(ops)
