"""A client that asks for partial JSON has the document from the changes alone."""

import json
from typing import Any

import httpx
import pytest

from dayzero.core.events import FinishReason
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.json_client import Document
from tests.gateway.stand import Stand, says, sse, stand

TEXT = '{"title":"Köln \\ud83c\\udf27","pages":[1,2.50],"done":true}'
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "book", "schema": SCHEMA}}
ASKED: dict[str, Any] = {
    "stream": True,
    "stream_options": {"partial_json": True},
    "response_format": {"type": "json_object"},
}


def told(response: httpx.Response, index: int = 0) -> tuple[Document, dict[str, Any]]:
    """The document of a choice, and the last that its stream says of it."""
    document, last = Document(), {}
    for event in sse(response):
        for choice in event["choices"]:
            if choice["index"] == index and "partial_json" in choice:
                last = choice["partial_json"]
                document.apply(last["changes"])
    return document, last


def both(this: Stand, **fields: Any) -> list[httpx.Response]:
    return [this.chat(**{**ASKED, **fields}), this.complete(**{**ASKED, **fields})]


@pytest.mark.parametrize("per_event", [1, 3, 1000])
def test_the_changes_come_to_the_document(per_event: int) -> None:
    for response in both(stand(says(TEXT, per_event=per_event))):
        document, last = told(response)
        assert document.value == json.loads(TEXT)
        assert (last["complete"], last["valid"]) == (True, True)


def test_the_verdict_is_with_the_finish_reason_and_nowhere_else() -> None:
    for response in both(stand(says(TEXT))):
        choices = [event["choices"][0] for event in sse(response)]
        assert ["complete" in choice.get("partial_json", {}) for choice in choices] == [
            choice["finish_reason"] is not None for choice in choices
        ]


def test_each_choice_has_its_own_document() -> None:
    this = stand(lambda submit: says(f'{{"number":{submit.choice}}}')(submit))
    for response in both(this, n=3):
        assert [told(response, index)[0].value for index in range(3)] == [{"number": index} for index in range(3)]


def test_a_document_cut_by_max_tokens_is_shown_as_far_as_it_goes_and_not_complete() -> None:
    for response in both(stand(says(TEXT[:14], FinishReason.LENGTH))):
        document, last = told(response)
        assert document.value == {"title": "Köln"}
        assert (last["complete"], last["valid"]) == (False, False)


def test_of_a_name_that_comes_twice_a_schema_leaves_validity_open() -> None:
    for response in both(stand(says('{"a":1,"a":2}')), response_format=BY_SCHEMA):
        assert (told(response)[1]["complete"], told(response)[1]["valid"]) == (True, None)


def test_a_stop_string_may_have_cut_a_number() -> None:
    number = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer", "minimum": 10}}}
    for response in both(stand(says("15", None)), response_format=number, stop="5"):
        assert (told(response)[1]["complete"], told(response)[1]["valid"]) == (True, None)


def test_reasoning_before_the_document_is_no_part_of_it() -> None:
    this = stand(says(f"<think>\n{{\n</think>\n\n{TEXT}"), tool_format=FORMATS["hermes"])
    document, last = told(this.chat(**ASKED))
    assert document.value == json.loads(TEXT)
    assert last["complete"]


def test_log_probs_and_token_ids_come_beside_the_changes() -> None:
    this = stand(says("[]"))
    for response in (
        this.chat(**ASKED, logprobs=True, return_token_ids=True),
        this.complete(**ASKED, logprobs=1, return_token_ids=True),
    ):
        first = next(event["choices"][0] for event in sse(response) if "partial_json" in event["choices"][0])
        assert first["partial_json"]["changes"] == [{"path": "", "value": []}]
        assert first["logprobs"]
        assert first["token_ids"] == [91]


def test_without_a_stream_there_is_nothing_to_ask_for() -> None:
    for response in both(stand(), stream=None):
        assert response.json()["error"]["param"] == "stream_options"
