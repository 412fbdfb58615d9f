import pytest

from tests.gateway.stand import stand


@pytest.mark.parametrize("path", ["/health", "/ready", "/version", "/metrics"])
def test_a_server_that_works_says_so(path: str) -> None:
    assert stand().request("GET", path).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_a_server_without_an_engine_says_so(path: str) -> None:
    this = stand()
    this.replica.die()
    assert this.request("GET", path).status_code == 503


def test_a_draining_server_is_healthy_but_not_ready() -> None:
    this = stand()
    this.gateway.admission.drain()
    assert this.request("GET", "/health").status_code == 200
    assert this.request("GET", "/ready").json()["error"]["code"] == "draining"


def test_a_full_server_is_not_ready() -> None:
    this = stand(max_in_flight=1)
    with this.gateway.admission.admit(1):
        assert this.request("GET", "/ready").status_code == 503


def test_the_version_names_weights_and_numerics() -> None:
    body = stand().request("GET", "/version").json()
    assert (body["policy_version"], body["numerics_id"]) == ("fake-1", "fake")
