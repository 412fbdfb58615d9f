import math

from dayzero.gateway.views.format import finite, token_bytes_and_text
from tests.gateway.stand import byte_tokenizer


def test_infinities_become_a_number_that_json_has() -> None:
    assert [finite(value) for value in (-1.5, -math.inf, math.nan)] == [-1.5, -9999.0, -9999.0]


def test_a_part_of_a_character_keeps_its_own_bytes() -> None:
    assert token_bytes_and_text(byte_tokenizer(), 0xC3) == {"token": "\ufffd", "bytes": [0xC3]}
