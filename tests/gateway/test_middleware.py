from collections.abc import AsyncIterator

import pytest

from dayzero.clock import FakeClock
from tests.gateway.stand import stand


def test_every_answer_has_an_id_and_its_duration() -> None:
    for path in ("/health", "/nope", "/v1/models"):
        headers = stand(clock=FakeClock()).request("GET", path).headers
        assert headers["x-request-id"].startswith("req_")
        assert headers["openai-processing-ms"] == "0"


def test_a_plain_id_of_the_client_is_echoed_and_is_no_key_of_anything() -> None:
    this = stand()
    for _ in range(2):
        body = {"messages": [{"role": "user", "content": "hi"}]}
        response = this.post("/v1/chat/completions", body, headers={"x-request-id": "job-7"})
        assert response.headers["x-request-id"] == "job-7"
    first, second = this.replica.submits
    assert first.request_id != second.request_id


def test_a_wrong_key_is_a_401_that_says_what_to_send() -> None:
    this = stand(api_keys=("right", "other"))
    response = this.request("GET", "/v1/models", headers={"authorization": "Bearer wrong"})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("value", ["Bearer right", "bearer right", "Bearer  other"])
def test_each_of_the_keys_is_let_in(value: str) -> None:
    this = stand(api_keys=("right", "other"))
    assert this.request("GET", "/v1/models", headers={"authorization": value}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/messages"])
def test_a_key_may_come_as_x_api_key(path: str) -> None:
    this = stand(api_keys=("right", "other"))
    assert this.request("GET", path, headers={"x-api-key": "other"}).status_code in (200, 405)
    assert this.request("GET", path, headers={"x-api-key": "wrong"}).status_code == 401


@pytest.mark.parametrize("value", ["", "right", "Basic right", "Bearer", "Bearer right right", "Bearer ' OR 1=1--"])
def test_anything_else_is_not(value: str) -> None:
    this = stand(api_keys=("right",))
    assert this.request("GET", "/v1/models", headers={"authorization": value}).status_code == 401


def test_two_keys_at_once_are_not_let_in() -> None:
    headers = [("authorization", "Bearer wrong"), ("authorization", "Bearer right")]
    assert stand(api_keys=("right",)).request("GET", "/v1/models", headers=headers).status_code == 401


def test_a_body_over_the_limit_is_a_413_before_it_is_read() -> None:
    this = stand()
    response = this.post("/v1/completions", b"x" * (this.config.limits.body_bytes + 1))
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "request_too_large"


def test_a_body_that_hides_its_length_is_counted() -> None:
    this = stand()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    response = this.request("POST", "/v1/completions", content=endless())
    assert response.status_code == 413


@pytest.mark.parametrize("length", ["-1", "+5", "x", "9" * 30])
def test_a_content_length_that_is_no_number_is_refused(length: str) -> None:
    response = stand().request("GET", "/v1/models", headers={"content-length": length})
    assert response.status_code == 413


def test_headers_over_the_limit_are_a_431() -> None:
    response = stand().request("GET", "/v1/models", headers={"x-long": "x" * 20_000})
    assert response.status_code == 431


def test_cross_origin_requests_are_allowed_where_configured() -> None:
    headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
    this = stand(cors_origins=("https://app.example",), api_keys=("right",))
    preflight = this.request("OPTIONS", "/v1/chat/completions", headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.example"
    refused = this.request("GET", "/v1/models", headers={"origin": "https://app.example"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"
    other = this.request("OPTIONS", "/v1/chat/completions", headers={**headers, "origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


def test_without_configuration_no_other_origin_is_allowed() -> None:
    response = stand().request("GET", "/v1/models", headers={"origin": "https://app.example"})
    assert "access-control-allow-origin" not in response.headers


def test_a_defect_of_ours_is_a_500_with_a_fixed_sentence() -> None:
    class Broken:
        async def render(self, chat: object) -> object:
            raise ZeroDivisionError(f"internals of {chat}")

    this = stand(renderer=Broken())
    response = this.chat("canary")
    assert response.status_code == 500
    assert "internals" not in response.text
    assert "canary" not in response.text
    assert this.gateway.admission.in_flight == 0


def test_a_full_queue_is_a_429_with_a_time_to_come_back() -> None:
    this = stand(max_in_flight=2)
    with this.gateway.admission.admit(1):
        response = this.chat(n=2)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        assert int(response.headers["retry-after-ms"]) >= 1
        assert this.chat().status_code == 200


def test_a_draining_server_is_a_503_with_a_time_to_come_back() -> None:
    this = stand()
    this.gateway.admission.drain()
    response = this.chat()
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1


def test_a_list_of_fields_that_has_no_room_ends_with_whole_names_and_dots() -> None:
    names = [f"{letter * 64}" for letter in "abcdefghijklmnopqrst"]
    told = stand().chat(**dict.fromkeys(names, 1)).headers["x-ignored-fields"]
    *first, last = told.split(", ")
    assert (first, last) == (names[: len(first)], "...")
    assert 1024 - 66 < len(told) <= 1024
