"""POST /v1/embeddings through ASGI: what is asked of an engine, how its answers are written, and what is refused."""

import base64
import math
import struct

import msgspec
import pytest

from dayzero.gateway.views.refused import SCORE_PATHS, TEXT_PATHS
from tests.gateway.stand import SPEC, stand

SIZE = SPEC.embedding_size


def test_a_text_becomes_a_vector_of_unit_length() -> None:
    this = stand()
    body = this.post("/v1/embeddings", {"model": "tiny", "input": "hi"}).json()
    assert body["object"] == "list"
    assert body["usage"] == {"prompt_tokens": 2, "total_tokens": 2}
    assert [one["index"] for one in body["data"]] == [0]
    assert len(body["data"][0]["embedding"]) == SIZE
    assert math.hypot(*body["data"][0]["embedding"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "prompts"),
    [
        ("hi", [[104, 105]]),
        (["hi", "h"], [[104, 105], [104]]),
        ([104, 105], [[104, 105]]),
        ([[104], [105, 104]], [[104], [105, 104]]),
    ],
)
def test_texts_and_token_ids_become_prompts_in_order(given: object, prompts: list[list[int]]) -> None:
    this = stand()
    body = this.post("/v1/embeddings", {"input": given}).json()
    assert [submit.prompt for submit in this.replica.submits] == prompts
    assert [one["index"] for one in body["data"]] == list(range(len(prompts)))
    assert body["usage"]["prompt_tokens"] == sum(map(len, prompts))


def test_each_input_has_the_embedding_that_it_has_alone() -> None:
    inputs = [f"text {i}" for i in range(100)]
    together = stand().post("/v1/embeddings", {"input": inputs}).json()["data"]
    assert [one["embedding"] for one in together] == [
        stand().post("/v1/embeddings", {"input": text}).json()["data"][0]["embedding"] for text in inputs
    ]


def test_more_inputs_than_may_be_in_the_system_at_once_take_turns() -> None:
    this = stand(max_in_flight=3)
    assert len(this.post("/v1/embeddings", {"input": ["hi"] * 20}).json()["data"]) == 20
    assert this.gateway.admission.in_flight == 0


def test_markup_in_a_text_is_content() -> None:
    this = stand()
    this.post("/v1/embeddings", {"input": "<|end|>"})
    assert len(this.replica.submits[0].prompt) == len("<|end|>")


def test_base64_holds_the_same_numbers() -> None:
    numbers = stand().post("/v1/embeddings", {"input": "hi"}).json()["data"][0]["embedding"]
    packed = stand().post("/v1/embeddings", {"input": "hi", "encoding_format": "base64"}).json()["data"][0]["embedding"]
    assert list(struct.unpack(f"<{SIZE}f", base64.b64decode(packed))) == numbers


def test_fewer_dimensions_are_the_first_ones_of_unit_length_again() -> None:
    whole = stand().post("/v1/embeddings", {"input": "hi"}).json()["data"][0]["embedding"]
    short = stand().post("/v1/embeddings", {"input": "hi", "dimensions": 3}).json()["data"][0]["embedding"]
    assert short == pytest.approx([number / math.hypot(*whole[:3]) for number in whole[:3]], rel=1e-6)


def test_the_pooling_is_the_models_unless_a_request_says() -> None:
    this = stand(spec=msgspec.structs.replace(SPEC, pooling="cls"))
    this.post("/v1/embeddings", {"input": "hi"})
    this.post("/v1/embeddings", {"input": "hi", "pooling": "mean"})
    assert [submit.pooling for submit in this.replica.submits] == ["cls", "mean"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": ["hi", ""]}, "input"),
        ({"input": 5}, "input"),
        ({"input": [SPEC.vocab_size]}, "input"),
        ({"input": ["h"] * 2049}, "input"),
        ({"input": [104] * (SPEC.max_context + 1)}, "input"),
        ({"input": "x" * 100_000}, "input"),
        ({"input": "hi", "dimensions": 0}, "dimensions"),
        ({"input": "hi", "dimensions": SIZE + 1}, "dimensions"),
        ({"input": "hi", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "hi", "pooling": "max"}, "pooling"),
        ({"input": "hi", "truncate": "END"}, "truncate"),
    ],
)
def test_a_bad_body_is_a_400_that_names_the_field(body: object, param: str) -> None:
    this = stand()
    response = this.post("/v1/embeddings", body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert param in (error["param"] or error["message"])
    assert not this.replica.submits


def test_a_model_that_is_not_served_is_a_404() -> None:
    assert stand().post("/v1/embeddings", {"model": "other", "input": "hi"}).status_code == 404


@pytest.mark.parametrize("path", SCORE_PATHS)
def test_pairs_of_texts_are_not_scored_and_embeddings_are_named_instead(path: str) -> None:
    error = stand().post(path, {"query": "a", "documents": ["b"]}).json()["error"]
    assert error["code"] == "unsupported_endpoint"
    assert "/v1/embeddings" in error["message"]


ENCODER = msgspec.structs.replace(SPEC, is_encoder=True, kv_blocks=0, pooling="mean", prefix_cache=False)


@pytest.mark.parametrize("path", TEXT_PATHS)
def test_an_encoder_is_not_asked_for_text_and_embeddings_are_named_instead(path: str) -> None:
    this = stand(spec=ENCODER)
    response = this.post(path, {"prompt": "hi", "messages": [{"role": "user", "content": "hi"}], "input": "hi"})
    assert response.status_code == 400
    assert "/v1/embeddings" in response.text
    assert not this.replica.submits


def test_an_encoder_embeds() -> None:
    this = stand(spec=ENCODER)
    assert this.post("/v1/embeddings", {"input": ["hi", "there"]}).status_code == 200
    assert [submit.pooling for submit in this.replica.submits] == ["mean", "mean"]
