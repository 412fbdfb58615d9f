"""Which requests pass without a key: enumerated over all routes, so that a new one cannot be forgotten."""

import socket

import pytest

from tests.gateway.stand import Stand, run_live, stand

KEY = "sk-right"
OPEN = {("/health", "GET"), ("/health", "HEAD")}
PROTECTED = sorted(set(stand().gateway.routes) - OPEN)


@pytest.fixture(scope="module")
def this() -> Stand:
    return stand(api_keys=(KEY,))


@pytest.fixture(scope="module")
def address(this: Stand):
    with run_live(this) as address:
        yield address


def status(address: tuple[str, int], method: str, target: str, *lines: str) -> int:
    """The status of a request exactly as written."""
    head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "connection: close", "content-length: 0", "", ""])
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(head.encode("latin-1"))
        answer = b""
        while part := client.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1])


def concrete(path: str) -> str:
    return path.replace("{model:path}", "tiny").replace("{response}", "resp_1")


def test_the_routes_are_all_there_is() -> None:
    assert len(PROTECTED) >= 13
    assert set(stand().gateway.routes) >= OPEN


@pytest.mark.parametrize(("path", "method"), PROTECTED)
def test_no_route_but_health_opens_without_the_key(address: tuple[str, int], path: str, method: str) -> None:
    """CVE-2025-63389, CVE-2026-35029, CVE-2026-40217: routes that nobody had thought of. None configures."""
    target = concrete(path)
    assert status(address, method, target, "host: x") == 401
    assert status(address, method, target, "host: x", "authorization: Bearer wrong") == 401
    allowed = (404,) if "{response}" in path else (200, 400)  # nothing is kept
    assert status(address, method, target, "host: x", f"authorization: Bearer {KEY}") in allowed


@pytest.mark.parametrize(("path", "method"), PROTECTED)
@pytest.mark.parametrize(
    "host", ["x/?", "x/#", "x/health?", "/health", "x/health#", "a@b/health", "health", "127.0.0.1:8000/health?x="]
)
def test_a_host_header_never_opens_a_route(address: tuple[str, int], path: str, method: str, host: str) -> None:
    """CVE-2026-48710, and with it CVE-2026-48746 and CVE-2026-49468: a path that was put together from the header."""
    assert status(address, method, concrete(path), f"host: {host}") == 401


@pytest.mark.parametrize(("path", "method"), PROTECTED)
def test_an_odd_spelling_of_a_path_never_opens_a_route(address: tuple[str, int], path: str, method: str) -> None:
    """CVE-2026-48710: what the check reads and what the router reads are the same bytes."""
    target = concrete(path)
    for odd in (
        f"/{target}",
        f"//health/..{target}",
        f"/health/..{target}",
        f"/health/%2e%2e{target}",
        f"/health%2f..{target}",
        f"/health;{target}",
        f"/health%00{target}",
        f"/./{target}",
        f"{target}/",
        f"{target}.",
        f"{target}?/health",
        f"{target}%3f/health",
        f"{target}#/health",
        target.upper(),
        f"http://x{target}",
        f"http://x/health/..{target}",
        "/%2fhealth",
        "/health/",
        "/health.",
        "//health",
    ):
        assert status(address, method, odd, "host: x") in (400, 401), odd


def test_health_opens_without_a_key(address: tuple[str, int]) -> None:
    assert status(address, "GET", "/health", "host: x") == 200


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND", "DELETE"])
def test_no_method_opens_a_route(address: tuple[str, int], method: str) -> None:
    assert status(address, method, "/v1/models", "host: x") in (400, 401)


def test_a_websocket_upgrade_opens_nothing(address: tuple[str, int]) -> None:
    upgrade = ("connection: upgrade", "upgrade: websocket", "sec-websocket-key: x", "sec-websocket-version: 13")
    assert status(address, "GET", "/v1/models", "host: x", *upgrade) in (400, 401)


def test_nobody_got_as_far_as_the_engine(this: Stand) -> None:
    assert this.replica.submits == []
