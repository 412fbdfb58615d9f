"""`dayzero serve`, `chat` and `doctor` of an encoder, and `LLM.embed` beside them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayzero import LLM
from dayzero.errors import ContextTooLong, RequestError
from tests.cli.server import WAIT_S, Server
from tests.golden import encoder

pytestmark = pytest.mark.model

TEXTS = ["Hello!", "good morning", "hello [CLS] world", "unheard", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder.write(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server(folder) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def llm(folder: Path) -> LLM:
    return LLM(str(folder))


def vectors(server: Server, texts: list[str], **fields: object) -> list[list[float]]:
    done = server.post("/v1/embeddings", {"input": texts, **fields})
    assert done.status_code == 200, done.text
    return [one["embedding"] for one in done.json()["data"]]


def test_what_is_printed_says_that_it_embeds(server: Server) -> None:
    assert "encoder    makes embeddings (cls, 96 numbers), not text; keeps no KV\n" in server.printed
    assert f"context    {encoder.MAX_TOKENS} tokens" in server.printed
    assert "KV pool" not in server.printed
    assert "tools" not in server.printed


def test_the_printed_curl_line_works_as_it_stands(server: Server) -> None:
    line = server.printed.splitlines()[-1]
    done = subprocess.run(
        f"{line} --silent --show-error", shell=True, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    if done.returncode == 127:
        pytest.skip("curl is not installed")
    assert len(json.loads(done.stdout)["data"]) == 2


def test_a_text_has_the_same_vector_alone_in_company_and_in_process(server: Server, llm: LLM) -> None:
    together = vectors(server, TEXTS * 10)
    assert together == [vectors(server, [text])[0] for text in TEXTS] * 10
    assert llm.embed(TEXTS) == [pytest.approx(vector, abs=1e-6) for vector in together[: len(TEXTS)]]


def test_the_folder_says_how_it_is_pooled_and_a_request_may_say_otherwise(server: Server, llm: LLM) -> None:
    assert vectors(server, ["hello world"]) == vectors(server, ["hello world"], pooling="cls")
    assert vectors(server, ["hello world"]) != vectors(server, ["hello world"], pooling="mean")
    assert (
        llm.embed("hello world") == llm.embed("hello world", pooling="cls") != llm.embed("hello world", pooling="last")
    )


def test_the_tokens_of_a_text_are_counted_with_those_around_it(server: Server) -> None:
    done = server.post("/v1/embeddings", {"input": "good morning"}).json()
    assert done["usage"]["prompt_tokens"] == 5
    tokens = server.post("/tokenize", {"prompt": "good morning"}).json()
    assert tokens["count"] == 5
    assert server.post("/detokenize", {"tokens": tokens["tokens"]}).json()["prompt"] == "[CLS] good morning[SEP]"


def test_a_text_that_is_too_long_is_refused_and_the_longest_is_not(server: Server, llm: LLM) -> None:
    longest = "hello " * (encoder.MAX_TOKENS - 2)
    assert len(vectors(server, [longest])) == 1
    done = server.post("/v1/embeddings", {"input": ["hello", longest + "hello"]})
    assert (done.status_code, done.json()["error"]["param"]) == (400, "input")
    with pytest.raises(ContextTooLong):
        llm.embed(longest + "hello")


def test_text_is_refused_and_embeddings_are_named_instead(server: Server, llm: LLM) -> None:
    done = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]})
    assert done.status_code == 400
    assert "/v1/embeddings" in done.json()["error"]["message"]
    with pytest.raises(RequestError, match="use embed"):
        llm.generate("hello")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chat",), "makes embeddings, not text"),
        (("serve", "--port", "0", "--kv-memory", "1"), "--kv-memory beside an encoder"),
        (("serve", "--port", "0", "--tool-format", "hermes"), "--tool-format beside an encoder"),
        (("serve", "--port", "0", "--store-responses"), "--store-responses beside an encoder"),
        (("serve", "--port", "0", "--kernels", "native"), "native kernels attend to what came before"),
        (("serve", "--port", "0", "--max-context", "65"), "max-context too large: 65"),
    ],
)
def test_what_an_encoder_cannot_do_is_refused_in_words(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    verb, *flags = arguments
    done = subprocess.run(
        [sys.executable, "-m", "dayzero.cli.main", verb, str(folder), *flags],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        input="hello",
    )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("given", [b"hi", [True, False], 5, [["a"]]])
def test_what_is_no_text_is_refused(llm: LLM, given: object) -> None:
    with pytest.raises(RequestError, match="a prompt is a string or a list of token ids"):
        llm.embed(given)


def test_doctor_says_that_it_keeps_nothing(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dayzero.cli.main", "doctor", str(folder)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert "an encoder keeps nothing" in done.stdout
    assert "span_attention" in done.stdout
    assert "paged_attention" not in done.stdout


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"pooling": "max"}, "pooling"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 97}, "dimensions"),
        ({"dimensions": 5.0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
    ],
)
def test_an_option_that_is_none_is_refused_by_its_name(llm: LLM, options: dict[str, object], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        llm.embed("hello", **options)
    assert caught.value.param == param
