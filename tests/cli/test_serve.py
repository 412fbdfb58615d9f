"""`dayzero serve` from its arguments to its exit code, with the embedded model and the real engine."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dayzero.cli.serve import default_name, url_of
from tests.cli.server import WAIT_S, Server, command

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("smollm2")]

CONTEXT = 96  # bounds the answer to a curl line that asks for no bound
LONG = {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True}
SHORT = {"prompt": "The capital of France is", "max_tokens": 3, "temperature": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """With defaults, but for the context."""
    with Server("--max-context", CONTEXT) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def flagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With every flag that changes what a client sees."""
    template = tmp_path_factory.mktemp("serve") / "plain.jinja"
    template.write_text("{% for message in messages %}The capital of {{ message.content }} is{% endfor %}")
    with Server(
        *("--served-model-name", "oracle", "--api-key", "one", "--api-key", "two", "--strict", "--offline"),
        *("--chat-template", template, "--cors-origin", "https://app.example", "--max-context", CONTEXT),
        *("--dtype", "float32", "--max-requests", 2, "--kv-memory", 0.5),
    ) as server:
        yield server
        assert server.stop(signal.SIGINT) == 0


def refused(*arguments: object) -> tuple[int, str]:
    """Exit code and stderr of a server that cannot start."""
    done = subprocess.run(command("--port", 0, *arguments), capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_the_frozen_spec_is_printed_and_is_what_is_served(server: Server) -> None:
    said = dict(re.findall(r"^([a-zA-Z ]+?) {2,}(.+)$", server.printed, re.MULTILINE))
    name, precision = (
        "SmolLM2-135M-Instruct.Q4_1",
        r"(as-stored, 92 MiB|bf16, 257 MiB)",
    )  # the latter on torch's kernels
    assert re.fullmatch(rf"{name} \(llama, bfloat16, precision {precision}\)", said["model"])
    assert said["context"] == f"{CONTEXT} tokens, 64 requests at once"
    assert re.fullmatch(r"\d+ blocks of 16 tokens in bf16, .* GiB as it fills", said["KV pool"])
    assert re.fullmatch(r"\d+ tokens, \d+ threads", said["step"])
    version = server.client.get("/version").json()
    assert said["version"] == f"policy {version['policy_version']}, numerics {version['numerics_id']}"
    assert server.printed.count("\nkernel ") == 8


def test_the_printed_curl_line_works_as_it_stands(server: Server) -> None:
    line = server.printed.splitlines()[-1]
    done = subprocess.run(
        f"{line} --silent --show-error", shell=True, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    if done.returncode == 127:
        pytest.skip("curl is not installed")
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert reply["choices"][0]["message"]["content"]
    assert reply["choices"][0]["finish_reason"] in ("stop", "length")


def test_without_flags_everyone_may_call_and_unknown_fields_are_listed(server: Server) -> None:
    done = server.post("/v1/completions", {**SHORT, "colour": "red"})
    assert done.status_code == 200
    assert done.json()["choices"][0]["text"].startswith(" Paris")
    assert done.headers["x-ignored-fields"] == "colour"


def test_flags_name_the_model_and_ask_for_a_key(flagged: Server) -> None:
    assert flagged.printed.startswith("model      oracle (llama, float32, precision float32, 513 MiB)\n")
    assert f"context    {CONTEXT} tokens, 2 requests at once\n" in flagged.printed
    assert flagged.post("/v1/completions", SHORT).status_code == 401
    assert flagged.post("/v1/completions", SHORT, authorization="Bearer three").status_code == 401
    for key in ("one", "two"):
        done = flagged.post("/v1/completions", SHORT, authorization=f"Bearer {key}")
        assert (done.status_code, done.json()["model"]) == (200, "oracle")


def test_flags_replace_the_template_and_refuse_unknown_fields(flagged: Server) -> None:
    body = {"messages": [{"role": "user", "content": "France"}], "max_tokens": 3, "temperature": 0}
    done = flagged.post("/v1/chat/completions", body, authorization="Bearer one")
    assert done.json()["choices"][0]["message"]["content"].startswith(" Paris")
    done = flagged.post("/v1/chat/completions", {**body, "colour": "red"}, authorization="Bearer one")
    assert done.status_code == 400
    assert "colour" in done.json()["error"]["message"]


def test_flags_let_a_browser_of_that_origin_call(flagged: Server) -> None:
    for origin, allowed in (("https://app.example", "https://app.example"), ("https://evil.example", None)):
        asked = {"origin": origin, "access-control-request-method": "POST"}
        done = flagged.client.options("/v1/chat/completions", headers=asked)
        assert done.headers.get("access-control-allow-origin") == allowed


def test_keys_are_never_printed_or_logged(flagged: Server) -> None:
    flagged.post("/v1/completions", SHORT, authorization="Bearer mistyped")
    assert "mistyped" not in flagged.printed + flagged.log
    assert "two" not in flagged.printed + flagged.log


def stream(server: Server, body: dict[str, object]) -> contextlib.AbstractContextManager[httpx.Response]:
    return server.client.stream("POST", "/v1/completions", json=body)


def test_sigterm_lets_a_stream_finish_and_admits_nothing_new() -> None:
    with Server() as server:
        with stream(server, {**LONG, "max_tokens": 120}) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            while httpx.get(f"{server.url}/ready", timeout=WAIT_S).status_code == 200:
                pass  # the signal is on its way
            late = httpx.post(f"{server.url}/v1/completions", json=SHORT, timeout=WAIT_S)
            assert (late.status_code, late.json()["error"]["code"]) == (503, "draining")
            rest = [line for line in lines if line]
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
        assert rest[-1] == "data: [DONE]"
        assert server.process.wait(WAIT_S) == 0
        events = {json.loads(line)["event"] for line in server.log.splitlines()}
        assert events == {"draining", "request"}  # neither process has said anything else


def test_a_second_signal_does_not_wait_for_streams() -> None:
    with Server() as server, stream(server, LONG) as response:
        lines = response.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGINT)
        while httpx.get(f"{server.url}/ready", timeout=WAIT_S).status_code == 200:
            pass
        assert server.process.poll() is None
        assert server.stop(signal.SIGINT) == 0
        assert '"code":"draining"' in list(lines)[-4]


def test_a_server_whose_engine_is_gone_says_so_to_everyone_and_ends_when_told() -> None:
    with Server() as server:
        with stream(server, LONG) as response:
            lines = response.iter_lines()
            next(lines)
            os.kill(server.engine_pid(), signal.SIGKILL)
            told = [json.loads(line.removeprefix("data: ")) for line in lines if "error" in line]
        assert [one["error"]["code"] for one in told] == ["replica_lost"]
        for answer in (
            server.client.get("/health"),
            server.client.get("/ready"),
            server.post("/v1/completions", SHORT),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "replica_lost")
        assert server.stop() == 0


def test_a_port_in_use_is_refused_before_a_model_is_loaded() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = refused("--port", port)
    assert code == 2
    assert f"127.0.0.1:{port}" in said


def test_more_context_than_the_model_has_is_refused_with_both_numbers() -> None:
    code, said = refused("--max-context", 9000)
    assert code == 2
    assert re.search(r"9000.*8192", said)


def test_kv_memory_that_cannot_hold_the_context_is_refused_with_both_numbers() -> None:
    code, said = refused("--kv-memory", 0.001, "--max-context", 4096)
    assert code == 2
    assert re.search(r"holds \d+ tokens.*4096", said)


def test_a_template_that_does_not_parse_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jinja").write_text("{{ bos_token }}\n{% if %}")
    code, said = refused("--chat-template", tmp_path / "bad.jinja")
    assert code == 3
    assert re.search(r"does not parse: .*\(line 2\)", said)


def test_a_template_that_is_not_there_is_refused() -> None:
    code, said = refused("--chat-template", "/nowhere.jinja")
    assert code == 2
    assert "chat template not readable: /nowhere.jinja" in said


def test_a_tool_format_that_is_none_is_refused_and_a_file_by_its_key(tmp_path: Path) -> None:
    code, said = refused("--tool-format", "parrot")
    assert code == 2
    assert "no such tool format: parrot" in said
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntriggers = ["<call>"]\nshape = {kind = "enveloped"}\n')
    code, said = refused("--tool-format", path)
    assert code == 2
    assert "shape.end: missing" in said


def test_a_log_level_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYZERO_LOG", "loud")
    code, said = refused()
    assert code == 2
    assert said.startswith("error: DAYZERO_LOG is not a level\nhint: use debug")


def test_an_architecture_that_the_engine_does_not_know_is_refused_with_those_that_it_does(
    unknown_family: Path,
) -> None:
    code, said = refused(unknown_family)
    assert code == 3
    assert "error: architecture not supported: perceptron\nhint: known: bert, gemma3, llama, qwen2, qwen3\n" in said


def test_a_checkpoint_without_a_tokenizer_is_refused(tiny_folder: Path) -> None:
    code, said = refused(tiny_folder)
    assert code == 3
    assert "tokenizer.json" in said


def test_a_truncated_file_is_refused(truncated: Path) -> None:
    code, said = refused(truncated)
    assert code == 3
    assert "truncated" in said


def test_a_hub_id_is_served_under_its_own_name_and_a_path_under_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").touch()
    assert default_name(None, tmp_path / "small.gguf") == "small"
    assert default_name(str(tmp_path), tmp_path) == tmp_path.name
    assert default_name("org/name", tmp_path / "snapshots" / "0f3a") == "org/name"


def test_an_ipv6_address_is_printed_as_clients_write_it() -> None:
    assert url_of("::1", 80) == "http://[::1]:80"
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"


ENDPOINTS = (
    *("--endpoint", "name=short,name=chat,max_context=64,max_requests=2,kv_memory=0.01"),
    *("--endpoint", f"name=long,max_context={CONTEXT}"),
)


def test_two_endpoints_give_the_same_answer_within_limits_of_their_own() -> None:
    with Server(*ENDPOINTS) as server:
        assert "endpoint   short, chat: 64 tokens, 2 requests at once, " in server.printed
        assert f"endpoint   long: {CONTEXT} tokens, 62 requests at once, " in server.printed
        drawn = {"prompt": "Once upon a time", "max_tokens": 24, "seed": 7, "logprobs": 2, "return_token_ids": True}
        answers = [server.post("/v1/completions", {**drawn, "model": name}).json() for name in ("long", "short")]
        assert answers[0]["choices"] == answers[1]["choices"]
        listed = server.client.get("/v1/models").json()["data"]
        assert {entry["id"]: entry["max_model_len"] for entry in listed} == {"short": 64, "chat": 64, "long": CONTEXT}
        beyond = {"prompt": "a " * 70, "max_tokens": 2}
        refused_by = server.post("/v1/completions", {**beyond, "model": "chat"})
        assert (refused_by.status_code, refused_by.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert server.post("/v1/completions", {**beyond, "model": "long"}).status_code == 200
        assert 'dayzero_endpoint_requests_running{endpoint="long"}' in server.client.get("/metrics").text
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--endpoint", "short"), r"not a key with a value: 'short'(.|\n)*--endpoint name=short,max_context=1024"),
        (("--endpoint", "name=a", "--endpoint", "name=a"), "by the name 'a'"),
        (("--endpoint", "name=a", "--served-model-name", "b"), "--served-model-name beside --endpoint"),
        (
            ("--endpoint", "name=a,max_requests=60", "--endpoint", "name=b,max_requests=5"),
            r"65 requests at once together \(the server has 64\)",
        ),
        (
            ("--kv-memory", 0.05, "--endpoint", "name=a,kv_memory=0.04", "--endpoint", "name=b,kv_memory=0.02"),
            r"bytes of KV memory together \(the server has 53687091\)",
        ),
    ],
)
def test_endpoints_that_cannot_be_are_refused_before_they_are_served(
    arguments: tuple[object, ...], message: str
) -> None:
    code, said = refused(*arguments)
    assert code == 2
    assert re.search(message, said), said
