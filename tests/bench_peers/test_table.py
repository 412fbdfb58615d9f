"""Which peer ours are set against, and what a table leaves out."""

import pytest

from bench.peers.table import best, rivals, tables


def result(unit: str, samples: dict[str, list[float]], bits: dict[str, int], failures: dict[str, str]) -> dict:
    settings = {"measure": "m", "checkpoint": "c", "threads": 2, "bits": bits, "failures": failures}
    return {"settings": settings, "unit": unit, "samples": samples}


@pytest.mark.parametrize(("unit", "name"), [("s", "a"), ("tokens/s", "b")])
def test_the_best_time_is_the_least_and_the_best_rate_the_most(unit: str, name: str) -> None:
    assert best({"a": [1.0, 1.0, 9.0], "b": [2.0, 2.0, 2.0]}, unit) == name


def test_ours_is_set_against_the_best_of_its_bits_and_the_best_of_all_but_never_against_ours() -> None:
    samples = {"dayzero int8": [12.0], "dayzero bf16": [99.0], "x 8": [4.0], "y 8": [6.0], "y 16": [8.0]}
    bits = {"dayzero int8": 8, "dayzero bf16": 16, "x 8": 8, "y 8": 8, "y 16": 16}
    lines = list(tables([result("tokens/s", samples, bits, {})]))
    line = next(line for line in lines if line.startswith("| dayzero int8"))
    assert line.endswith("| 2 y 8 | 1.5 y 16 |")


def test_a_measure_that_no_peer_has_shows_ours_alone_and_a_failure_is_named() -> None:
    lines = list(tables([result("s", {"dayzero int8": [1.0]}, {"dayzero int8": 8}, {"x 8": "ended"})]))
    assert "| dayzero int8 | 1 (1 to 1) |  |  |" in lines
    assert lines[-1].strip() == "x 8 failed: ended"


def test_a_server_is_set_against_servers_and_engines_that_have_none_and_in_process_against_in_process() -> None:
    names = ["dayzero int8", "dayzero int8 http", "llama.cpp Q8_0", "llama.cpp Q8_0 http", "openvino bf16"]
    samples = {name: [1.0] for name in names}
    assert rivals("dayzero int8", samples).keys() == {"llama.cpp Q8_0", "openvino bf16"}
    assert rivals("dayzero int8 http", samples).keys() == {"llama.cpp Q8_0 http", "openvino bf16"}


def test_who_was_left_out_after_a_round_is_shown_and_is_nobodys_best_peer() -> None:
    samples = {"dayzero int8": [12.0, 12.0], "x 8": [99.0], "y 8": [6.0, 6.0]}
    lines = list(tables([result("tokens/s", samples, {"dayzero int8": 8, "x 8": 8, "y 8": 8}, {})]))
    assert "| x 8 | 99, too slow after a round |  |  |" in lines
    assert next(line for line in lines if line.startswith("| dayzero int8")).endswith("| 2 y 8 | 2 y 8 |")
