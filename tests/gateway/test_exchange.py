import pytest

from dayzero.gateway import exchange


def begin(value: bytes) -> exchange.Exchange:
    scope = {"type": "http", "headers": [(b"x-request-id", value)]}
    this = exchange.begin(scope, 1.0)
    assert exchange.of(scope) is this
    return this


def test_a_plain_client_id_is_echoed() -> None:
    assert begin(b"job-7_a.b").id == "job-7_a.b"


@pytest.mark.parametrize("value", [b"", b"a b", b"a\xff", b"x" * 129, b"a\r\nb", b'"'])
def test_any_other_client_id_is_replaced(value: bytes) -> None:
    assert begin(value).id.startswith("req_")


def test_ids_that_are_drawn_differ() -> None:
    assert begin(b"").id != begin(b"").id
