"""Nothing that a client names is fetched: no address, no file (CVE-2025-6242, CVE-2026-24779)."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.stand import stand


@pytest.fixture
def trap() -> Iterator[tuple[socket.socket, str]]:
    """A server that must not be called, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        host, port = listener.getsockname()[:2]
        yield listener, f"{host}:{port}"


def parts(url: str) -> list[dict[str, Any]]:
    """Every part of a message that can name a resource."""
    return [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": url},
        {"type": "input_image", "image_url": url},
        {"type": "image", "source": {"type": "url", "url": url}},
        {"type": "video_url", "video_url": {"url": url, "fps": 1e9}},
        {"type": "audio_url", "audio_url": {"url": url}},
        {"type": "input_audio", "input_audio": {"data": url, "format": "wav"}},
        {"type": "file", "file": {"file_data": url, "filename": "x"}},
        {"type": "input_file", "file_url": url},
        {"type": "image_embeds", "image_embeds": url},
    ]


@pytest.mark.parametrize(
    "form",
    [
        "http://{}/x.png",
        "http://allowed.example\\@{}/",
        "http://user@{}/",
        "http://[::ffff:127.0.0.1]:1/{}",
        "//{}/x",
        "ftp://{}/x",
        "data:image/png;base64,iVBORw0KGgo=?{}",
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
def test_a_message_with_media_is_a_400_and_nobody_is_called(
    trap: tuple[socket.socket, str], path: str, form: str
) -> None:
    """CVE-2026-24779: two parsers of one address, of which one was tricked. CVE-2025-6242, CVE-2026-5497,
    CVE-2026-105760: fetching at all, and frames without a bound."""
    listener, address = trap
    this = stand()
    for part in parts(form.format(address)):
        response = this.post(path, {"messages": [{"role": "user", "content": [part]}]})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "messages[0].content[0]"
        assert address not in response.text
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert this.replica.submits == []


def test_an_item_with_media_is_a_400_and_nobody_is_called(trap: tuple[socket.socket, str]) -> None:
    """CVE-2026-24779 and its like, in messages and in what a tool has given."""
    listener, address = trap
    this = stand()
    for part in parts(f"http://{address}/x.png"):
        for item in (
            {"role": "user", "content": [part]},
            {"type": "function_call_output", "call_id": "c", "output": [part]},
        ):
            response = this.post("/v1/responses", {"input": [item]})
            assert response.status_code == 400
            assert response.json()["error"]["param"].startswith("input[0].")
            assert address not in response.text
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert this.replica.submits == []


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_block_with_media_is_a_400_and_nobody_is_called(trap: tuple[socket.socket, str], path: str) -> None:
    """CVE-2026-24779 and its like, by another vendor's names."""
    listener, address = trap
    this = stand()
    url = f"http://{address}/x.png"
    documents: list[dict[str, Any]] = [
        {"type": "document", "source": {"type": "url", "url": url}},
        {"type": "document", "source": {"type": "file", "file_id": url}},
        {"type": "container_upload", "file_id": url},
        {"type": "search_result", "source": url, "title": "x", "content": []},
        {"type": "web_fetch_tool_result", "tool_use_id": "x", "content": {"url": url}},
    ]
    for block in [*parts(url), *documents]:
        result = {"type": "tool_result", "tool_use_id": "x", "content": [block]}
        for role, content in (("user", [block]), ("user", [result]), ("assistant", [block])):
            response = this.post(path, {"max_tokens": 5, "messages": [{"role": role, "content": content}]})
            assert response.status_code == 400
            assert response.json()["error"]["message"].startswith("messages[0].content[0]")
            assert address not in response.text
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert this.replica.submits == []


@pytest.mark.parametrize("form", ["file://{}", "file:///{}", "file://localhost{}", "{}"])
def test_a_file_is_not_read(tmp_path: Path, form: str) -> None:
    """GHSA-w4c7-34wj-hqm8: a local file, to anyone who asked."""
    secret = tmp_path / "secret.png"
    secret.write_text("canary7391")
    this = stand()
    for part in parts(form.format(secret)):
        response = this.post("/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}]})
        assert response.status_code == 400
        assert "canary7391" not in response.text


@pytest.mark.parametrize("field", ["api_base", "base_url", "user_config", "model_list", "proxy", "callback_url"])
def test_no_address_at_any_depth_is_called(trap: tuple[socket.socket, str], field: str) -> None:
    """PYSEC-2026-4070, CVE-2026-136536: a back end that the request itself named, at some depth."""
    listener, address = trap
    this = stand()
    url = {field: f"http://{address}/v1"}
    for extra in (url, {"metadata": url}, {"extra_body": url}, {"litellm_params": {"inner": [url]}}):
        assert this.chat(**extra).status_code in (200, 400)
    message = {"role": "user", "content": "hi", **url}
    assert this.post("/v1/chat/completions", {"messages": [message]}).status_code == 200
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("field", ["prompt_embeds", "audio", "documents"])
def test_tensors_of_a_client_are_not_taken(field: str) -> None:
    """CVE-2025-62164, CVE-2026-105754, PYSEC-2026-2303: a serialised tensor in a request is code, or a crash."""
    for path, least in (("/v1/completions", {"prompt": "hi"}), ("/v1/chat/completions", {"messages": []})):
        response = stand().post(path, {**least, field: "gASVCAAAAAAAAACMBHRlc3SULg=="})
        assert response.status_code in (200, 400)
        if response.status_code == 200:
            assert response.headers["x-ignored-fields"] == field
