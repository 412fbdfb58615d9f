"""The hub client against a loopback server that answers as the hub does."""

import errno
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dayzero.checkpoint.hub import Hub
from dayzero.errors import ConfigError, DayzeroError

SHA = "0123456789abcdef0123456789abcdef01234567"


class FakeHubServer(ThreadingHTTPServer):
    """One repository, `org/name`, of the given files; `refusal` is a status and an error code for every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.refusal: tuple[int, str] | None = None
        self.served: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeHubServer

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        return

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        if self.server.refusal:
            self._send(self.server.refusal[0], b"{}", {"X-Error-Code": self.server.refusal[1]}, with_body)
        elif path.startswith("/api/models/org/name/tree/"):
            tree = [{"type": "file", "path": n, "size": len(c), "oid": _oid(c)} for n, c in self.server.files.items()]
            self._send(200, json.dumps(tree).encode(), {}, with_body)
        elif path.startswith("/api/models/org/name"):
            siblings = [{"rfilename": name} for name in self.server.files]
            info = {"id": "org/name", "sha": SHA, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
            self._send(200, json.dumps(info).encode(), {}, with_body)
        else:
            name = path.removeprefix(f"/org/name/resolve/{SHA}/")
            content = self.server.files[name]
            if with_body:
                self.server.served.append(name)
            self._send(200, content, {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": SHA}, with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def _oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def server() -> Iterator[FakeHubServer]:
    server = FakeHubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hub(server: FakeHubServer, tmp_path: Path) -> Hub:
    return Hub(endpoint=server.endpoint, cache=tmp_path / "cache")


def _ignore(*_: object) -> None:
    return


def test_only_what_a_model_is_made_of_is_fetched(server: FakeHubServer, hub: Hub) -> None:
    wanted = {"config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json", "tokenizer.json"}
    unwanted = {
        "pytorch_model.bin",
        "modeling.py",
        "model.gguf",
        "original/model.safetensors",
        "consolidated.safetensors",
    }
    server.files = {name: name.encode() * 100 for name in wanted | unwanted}
    done: list[tuple[str, int, int]] = []
    folder = hub.fetch("org/name", offline=False, progress=lambda *step: done.append(step))
    assert set(server.served) == wanted == {file.name for file in folder.iterdir()}
    total = sum(len(server.files[name]) for name in wanted)
    assert max(done) == ("org/name", total, total)


def test_how_embeddings_are_pooled_is_fetched_with_the_model(server: FakeHubServer, hub: Hub) -> None:
    wanted = {"config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"}
    unwanted = {"onnx/model.onnx", "openvino/config.json", "2_Dense/model.safetensors"}
    server.files = {name: name.encode() for name in wanted | unwanted}
    folder = hub.fetch("org/name", offline=False, progress=_ignore)
    assert set(server.served) == wanted
    assert (folder / "1_Pooling" / "config.json").is_file()


def test_what_was_fetched_once_is_found_offline(server: FakeHubServer, hub: Hub, tmp_path: Path) -> None:
    server.files = {"config.json": b"{}", "model.safetensors": b"w"}
    folder = hub.fetch("org/name", offline=False, progress=_ignore)
    unreachable = Hub(endpoint="http://127.0.0.1:1", cache=tmp_path / "cache")
    assert unreachable.fetch("org/name", offline=True, progress=_ignore) == folder


def test_the_only_gguf_file_of_a_repository_is_its_model(server: FakeHubServer, hub: Hub) -> None:
    server.files = {"README.md": b"", "model-q4.gguf": b"GGUF"}
    path = hub.fetch("org/name", offline=False, progress=_ignore)
    assert (path.name, path.read_bytes()) == ("model-q4.gguf", b"GGUF")


def test_of_several_gguf_files_one_must_be_named(server: FakeHubServer, hub: Hub) -> None:
    server.files = {"a.gguf": b"a", "b.gguf": b"b"}
    with pytest.raises(
        ConfigError, match=r"2 .gguf files\nhint: name one, as in org/name:a.gguf \(there are a.gguf, b"
    ):
        hub.fetch("org/name", offline=False, progress=_ignore)
    assert hub.fetch_file("org/name", "b.gguf", offline=False, progress=_ignore).read_bytes() == b"b"


def test_a_file_that_the_repository_lacks_is_named(server: FakeHubServer, hub: Hub) -> None:
    server.files = {"a.gguf": b"a"}
    with pytest.raises(ConfigError, match=r"no such file in org/name: c.gguf"):
        hub.fetch_file("org/name", "c.gguf", offline=False, progress=_ignore)


def test_a_repository_of_pickles_has_no_weights(server: FakeHubServer, hub: Hub) -> None:
    server.files = {"config.json": b"{}", "pytorch_model.bin": b"x"}
    with pytest.raises(DayzeroError, match="no weights in org/name"):
        hub.fetch("org/name", offline=False, progress=_ignore)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "RepoNotFound", "no such model on the hub"),
        (401, "GatedRepo", "gated model: org/name\nhint: accept its terms"),
        (403, "GatedRepo", "gated model"),
        (500, "", "cannot reach the hub|status 500"),
    ],
)
def test_a_refusal_says_what_to_do(server: FakeHubServer, hub: Hub, status: int, code: str, message: str) -> None:
    server.refusal = (status, code)
    with pytest.raises(ConfigError, match=message):
        hub.fetch("org/name", offline=False, progress=_ignore)


def test_without_a_network_the_hint_is_a_local_model(tmp_path: Path) -> None:
    hub = Hub(endpoint="http://127.0.0.1:1", cache=tmp_path)
    with pytest.raises(ConfigError, match=r"cannot reach the hub for org/name\nhint: .*local folder"):
        hub.fetch("org/name", offline=False, progress=_ignore)


def test_offline_never_looks_at_the_hub(server: FakeHubServer, hub: Hub) -> None:
    server.files = {"config.json": b"{}", "model.safetensors": b"w"}
    with pytest.raises(ConfigError, match=r"not in the local cache: org/name"):
        hub.fetch("org/name", offline=True, progress=_ignore)
    assert server.served == []


def test_a_full_disk_says_how_much_is_free(server: FakeHubServer, hub: Hub) -> None:
    server.files = {"config.json": b"{}", "model.safetensors": b"w"}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ConfigError, match=r"no space left on the disk while fetching org/name: \d+ MiB free"):
        hub.fetch("org/name", offline=False, progress=full)
