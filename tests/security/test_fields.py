"""No value of any field is more than a 400: CVE-2026-21869 (negative numbers), CVE-2025-48944 (types), and the like."""

from typing import Any

import msgspec
import pytest

from dayzero.gateway.views.chat import ChatRequest
from dayzero.gateway.views.completions import CompletionRequest
from dayzero.gateway.views.messages import MessagesRequest
from dayzero.gateway.views.responses import ResponsesRequest
from tests.gateway.stand import says, stand

VALUES: list[Any] = [
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    2**64,
    1e308,
    -1e308,
    5e-324,
    True,
    False,
    "",
    "x",
    "9" * 400,
    "' OR 1=1--",
    "{{ 7*7 }}",
    "\u0000",
    [],
    [[]],
    [None],
    [-1],
    [2**64],
    [True],
    ["x"],
    [""],
    {},
    {"": ""},
    {"-1": 0},
    {"x": {"x": []}},
    {"99999999999999999999": 1},
    {"type": "json_schema", "json_schema": {"schema": {"pattern": 5}}},
]


@pytest.mark.parametrize(
    ("path", "kind", "least"),
    [
        ("/v1/chat/completions", ChatRequest, {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/completions", CompletionRequest, {"prompt": "hi"}),
        ("/v1/responses", ResponsesRequest, {"input": "hi", "previous_response_id": None}),
        ("/v1/messages", MessagesRequest, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
    ],
)
def test_any_value_of_any_field_is_an_answer_or_a_400(path: str, kind: type[msgspec.Struct], least: object) -> None:
    """CVE-2026-21869: a negative count. CVE-2025-48944: a `pattern` or `type` that is no string."""
    this = stand(says("ok"))
    seen = set()
    for field in msgspec.structs.fields(kind):
        for value in VALUES:
            response = this.post(path, {**least, field.encode_name: value})
            assert response.status_code in (200, 400, 404), (field.name, value)
            seen.add(response.status_code)
    assert {200, 400} <= seen
    assert this.replica.running == {}
    assert this.gateway.admission.in_flight == 0


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_any_value_within_any_item_is_an_answer_or_a_400(value: Any) -> None:
    this = stand(says("ok"), store_responses=True)
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}], "id": "msg_1"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c", "output": "x", "id": "fco_1"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "x"}], "summary": [], "id": "rs_1"},
    ]
    for item in items:
        for name in item:
            response = this.post("/v1/responses", {"input": [{**item, name: value}]})
            assert response.status_code in (200, 400), (item["type"], name)
            if response.status_code == 200:
                listed = this.request("GET", f"/v1/responses/{response.json()['id']}/input_items").json()["data"]
                assert this.post("/v1/responses", {"input": listed}).status_code == 200


@pytest.mark.parametrize("field", ["api_base", "base_url", "user_config", "model_list", "prompt_embeds", "lora_path"])
def test_a_field_that_would_point_us_elsewhere_has_no_effect(field: str) -> None:
    """PYSEC-2026-4070, CVE-2026-136536: a back end that the request named."""
    response = stand().chat(**{field: "http://169.254.169.254/"})
    assert response.status_code in (200, 400)
    if response.status_code == 200:
        assert response.headers["x-ignored-fields"] == field


def test_header_names_cannot_be_smuggled_through_field_names() -> None:
    response = stand().chat(**{"a\r\nset-cookie: x": 1, "b, c": 2, "plain": 3})
    assert response.headers["x-ignored-fields"] == "?, ?, plain"
    assert "set-cookie" not in response.headers


def test_two_tenants_with_the_same_request_id_do_not_meet() -> None:
    """PYSEC-2026-4198; at the same time: test_tenants."""
    this = stand(api_keys=("a", "b"))
    body = {"messages": [{"role": "user", "content": "hi"}]}
    for key in ("a", "b"):
        this.post("/v1/chat/completions", body, headers={"authorization": f"Bearer {key}", "x-request-id": "same"})
    first, second = this.replica.submits
    assert first.request_id != second.request_id
    assert first.salt != second.salt
