"""What every route answers to what it cannot serve: bounded, in one shape, and without a word about the machine.

All routes are walked, so that a fix cannot miss a sibling: CVE-2026-22778, whose fix missed one route (CVE-2026-54236),
and PYSEC-2026-4350, a limit of one front end only.
"""

import re
from collections.abc import Callable

import msgspec
import pytest

from dayzero.gateway.config import Limits
from dayzero.gateway.openapi import ErrorBody, MessagesErrorBody
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import SPEC, Stand, stand

ROUTES = sorted(set(stand().gateway.routes))
POSTS = [path for path, method in ROUTES if method == "POST" and not path.endswith("/cancel")]  # which reads no body
LIMITS = Limits(body_bytes=4096, json_depth=8, json_containers=32, header_bytes=2048)

INTERNALS = re.compile(
    r"0x[0-9a-f]{6}|Traceback|File \"|\.py\b|site-packages|/(?:usr|home|root|tmp|work|etc|proc)/|"
    r"<[\w.]+ (?:object|at) |"
    r"\b(?:msgspec|jinja2|starlette|uvicorn|tokenizers|zmq|asyncio|dayzero\.)"
)

BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"messages": [',
    "not an object": b"[1]",
    "not UTF-8": b'{"prompt": "\xff\xfe"}',
    "a lone surrogate": b'{"prompt": "\\ud800", "messages": "\\udfff", "tokens": "\\ud800"}',
    "NUL": b'{"prompt": 7, "messages": "\\u0000", "tokens": "\\u0000"}',
    "a path": b'{"prompt": {"a": "/etc/passwd"}, "messages": "/etc/passwd", "tokens": "/etc/passwd"}',
    "an object that would be called": b'{"prompt": {"__class__": 1}, "messages": {"__class__": 1}, "tokens": {}}',
    "NaN": b'{"prompt": NaN}',
    "a number beyond floats": b'{"prompt": 1e999, "messages": 1e999, "tokens": [1e999]}',
    "a huge number": b'{"prompt": %s, "messages": %s, "tokens": [%s]}' % ((b"9" * 400,) * 3),
    "two values": b'{"messages": 3, "tokens": 3, "prompt": {}}{}',
    "a key of its own kind": b'{3: 4, "prompt": {}}',
}


def concrete(path: str) -> str:
    return path.replace("{model:path}", "no/such/%2e%2e/model").replace("{response}", "resp_%2e%2e")


def check(this: Stand, method: str, path: str, **options: object) -> int:
    """The status of an answer, which if it is an error has the one shape and says nothing of us."""
    response = this.request(method, concrete(path), **options)
    if response.status_code >= 400 and method != "HEAD":
        kind = MessagesErrorBody if path.startswith("/v1/messages") else ErrorBody
        assert msgspec.json.decode(response.content, type=kind)
        assert not INTERNALS.search(response.text), response.text
        assert len(response.content) < 2048
    assert not INTERNALS.search(str(response.headers))
    return response.status_code


@pytest.mark.parametrize(("path", "method"), ROUTES)
def test_no_error_of_any_route_tells_of_paths_addresses_or_code(path: str, method: str) -> None:
    """CVE-2026-22778, CVE-2026-54236: an address from the heap in the text of an error was half of an exploit."""
    this = stand()
    for body in BODIES.values():
        assert check(this, method, path, content=body) in ((400,) if path in POSTS else (200, 404))
    for wrong in {"PUT", "DELETE", "PATCH"} - {served for route, served in ROUTES if route == path}:
        assert check(this, wrong, path) == 405
    assert check(this, method, path, headers={"content-length": "-1"}) == 413
    assert check(this, method, path, headers={"x-long": "x" * 20_000}) == 431
    assert check(this, method, path, params={"q": "{{7*7}}' OR 1=1--"}) in (200, 400, 404)


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(413, lambda: b"x" * 4097, id="bytes"),
        pytest.param(400, lambda: b'{"messages":' + b"[" * 9 + b"]" * 9 + b"}", id="depth"),
        pytest.param(400, lambda: b"[" * 3000 + b"]" * 1000, id="depth beyond the stack"),
        pytest.param(400, lambda: b'{"messages":[' + b"[]," * 40 + b"[]]}", id="arrays"),
        pytest.param(400, lambda: b'{"tokens":[%d]}' % 2**64, id="integers"),
    ],
)
def test_every_route_with_a_body_has_the_same_bounds(path: str, status: int, body: Callable[[], bytes]) -> None:
    """PYSEC-2026-4350: what one front end refuses, every other one does."""
    this = stand(limits=LIMITS)
    assert check(this, "POST", path, content=body()) == status
    assert this.replica.submits == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", 2**63),
        ("stop_sequences", ["x"] * 17),
        ("stop_sequences", ["x" * 257]),
        ("stop_sequences", [""]),
        ("top_k", -(2**63)),
        ("temperature", 2.1),
        ("temperature", -1e-9),
        ("top_p", 0),
        ("seed", 2**64),
        ("tools", [{"name": "x", "input_schema": {}}] * 129),
        ("tools", [{"name": "x", "input_schema": {"description": "x" * 70_000}}]),
    ],
)
def test_messages_have_the_same_limits(field: str, value: object) -> None:
    """PYSEC-2026-4350: the sibling of another vendor is no way around."""
    this = stand(tool_format=FORMATS["hermes"])
    response = this.post(
        "/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, field: value}
    )
    if (field, value) == ("max_tokens", 2**63):  # as many as fit
        assert this.replica.submits[0].params.max_tokens < SPEC.max_context
        return
    assert response.status_code == 400
    assert this.replica.submits == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 17),
        ("n", -1),
        ("max_tokens", -1),
        ("min_tokens", -(2**63)),
        ("stop", ["x"] * 17),
        ("stop", ["x" * 257]),
        ("stop", [""]),
        ("stop_token_ids", [0] * 129),
        ("logit_bias", {str(i): 1 for i in range(1025)}),
        ("logit_bias", {"1": 101}),
        ("top_k", -(2**63)),
        ("temperature", 2.1),
        ("temperature", -1e-9),
        ("top_p", 0),
        ("min_p", 1.1),
        ("priority", 2**31),
        ("presence_penalty", 1e308),
        ("repetition_penalty", 0),
        ("cache_salt", "x" * 129),
    ],
)
def test_a_limit_of_one_text_api_is_a_limit_of_the_other(path: str, field: str, value: object) -> None:
    """PYSEC-2026-4350 and CVE-2026-21869, whose negative count wrote out of bounds."""
    least = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
    body = {name: least[name] for name in (("messages",) if "chat" in path else ("prompt",))}
    this = stand()
    response = this.post(path, {**body, field: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(field)
    assert this.replica.submits == []
