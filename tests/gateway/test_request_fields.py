"""docs/fields.md says what becomes of every field of a request. Here each is sent, and every field has its row."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import httpx
import msgspec
import pytest

from dayzero.gateway.parse import FieldRules
from dayzero.gateway.views import chat, completions, embeddings, messages, responses, responses_stored, tokens
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.public_fields import PUBLIC, openai_fields
from tests.gateway.stand import Stand, says, stand

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fields.md"
VIEWS: Mapping[str, tuple[type[msgspec.Struct], FieldRules]] = {
    "/v1/chat/completions": (chat.ChatRequest, chat.RULES),
    "/v1/completions": (completions.CompletionRequest, completions.RULES),
    "/v1/responses": (responses.ResponsesRequest, responses.RULES),
    "/v1/messages": (messages.MessagesRequest, messages.RULES),
    "/v1/messages/count_tokens": (messages.CountTokensRequest, messages.COUNT_RULES),
    "/v1/embeddings": (embeddings.EmbeddingsRequest, embeddings.RULES),
    "/tokenize": (tokens.TokenizeRequest, tokens.RULES),
    "/detokenize": (tokens.DetokenizeRequest, tokens.DETOKENIZE_RULES),
}
QUERIES: Mapping[str, tuple[Mapping[str, Any], FieldRules]] = {
    "/v1/responses/{response}": (responses_stored.RESPONSE_QUERY, responses_stored.RESPONSE_RULES),
    "/v1/responses/{response}/input_items": (responses_stored.PAGE_QUERY, responses_stored.PAGE_RULES),
}
UNSEEN = {"any": "thing"}  # a value that no field asks for nothing with


class Row(NamedTuple):
    route: str
    field: str
    known_from: str
    status: str
    note: str


def table() -> list[Row]:
    """All rows of the page."""
    found, route = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            route = line.split()[-1].strip("`")
        elif line.startswith("| `"):
            field, *cells = (cell.strip() for cell in line.strip().strip("|").split(" | "))
            found.append(Row(route, field.strip("`"), *(cells + [""] * (3 - len(cells)))))
    return found


def test_every_field_has_one_row_and_no_row_is_of_another() -> None:
    rows = table()
    for route, (kind, rules) in VIEWS.items():
        told = [row.field for row in rows if row.route == route]
        public = {name for names in PUBLIC[route].values() for name in names}
        assert len(told) == len(set(told))
        assert set(told) == {*supported(kind, rules), *rules.neutral, *rules.harmless, *public}, route
    for route, (known, rules) in QUERIES.items():
        told = [row.field for row in rows if row.route == route]
        public = set(PUBLIC[route]["OpenAI"])
        assert sorted(told) == sorted({*known, *rules.neutral, *rules.harmless, *public} - {"include[]"}), route
    assert {row.route for row in rows} == {*VIEWS, *QUERIES}


def test_what_is_public_is_told_from_what_is_our_own() -> None:
    for row in table():
        owners = [owner for owner, names in PUBLIC[row.route].items() if row.field in names]
        assert not owners or row.known_from == ", ".join(owners), row


def test_openais_fields_are_those_of_its_package() -> None:
    for route, names in openai_fields().items():
        assert PUBLIC[route]["OpenAI"] == names


def supported(kind: type[msgspec.Struct], rules: FieldRules) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        shapes = {**rules.shapes, **rules.inside}
        yield from within(shapes.get(field.encode_name, field.type), field.encode_name)


def within(kind: Any, place: str) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind.__struct_config__.tag is not None:
            yield f"{place}.type"
        for field in msgspec.structs.fields(kind):
            yield f"{place}.{field.encode_name}"
            yield from within(field.type, f"{place}.{field.encode_name}")
    elif get_origin(kind) is list:
        yield from within(get_args(kind)[0], f"{place}[]")
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from within(one, place)


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}}
RESPONSES_TOOL = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
MESSAGES_TOOL = {"type": "custom", "name": "f", "description": "d", "input_schema": SCHEMA, "strict": True}
JSON_SCHEMA = {"name": "x", "description": "d", "schema": SCHEMA, "strict": True}
HI = [{"role": "user", "content": "hi"}]
LEAST: Mapping[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"max_tokens": 5, "messages": HI},
    "/v1/messages/count_tokens": {"messages": HI},
    "/v1/embeddings": {"input": "hi"},
    "/tokenize": {"prompt": "hi"},
    "/detokenize": {"tokens": [5]},
}
SAMPLING = {
    "model": "tiny",
    "max_tokens": 5,
    "min_tokens": 1,
    "temperature": 0.5,
    "top_k": 3,
    "top_p": 0.5,
    "min_p": 0.1,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "repetition_penalty": 1.1,
    "logit_bias": {"5": 1},
    "n": 2,
    "seed": 7,
    "stop": ["x"],
    "stop_token_ids": [5],
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "stream": True,
    "priority": 1,
    "cache_salt": "s",
    "collapse_guard": "stop",
    "return_token_ids": True,
    "guided_json": SCHEMA,
    "guided_regex": "a",
    "guided_choice": ["a"],
    "guided_grammar": "start: /a/",
    "structured_outputs": {"regex": "a"},
    "echo": True,
    "logprobs": 2,
    "add_special_tokens": False,
    "parse_special": False,
    "add_generation_prompt": True,
    "continue_final_message": False,
    "chat_template_kwargs": {"enable_thinking": True},
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
    "include_reasoning": False,
    "cache_control": UNSEEN,
    "instructions": "be brief",
    "max_output_tokens": 5,
    "max_completion_tokens": 5,
    "store": False,
    "metadata": {"a": "b"},
    "include": [],
    "system": "be brief",
    "stop_sequences": ["x"],
    "return_token_strs": True,
    "dimensions": 2,
    "encoding_format": "base64",
    "pooling": "mean",
}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": JSON_SCHEMA}}
NAMED = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}
ALLOWED = {
    "tools": [TOOL],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
}
BARE = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "name": "f"}]}}
ALLOWED_IN_RESPONSES = {
    "tools": [RESPONSES_TOOL],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
}
THINKING = {"thinking": {"type": "enabled", "display": "omitted"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SAID = {"type": "text", "text": "hi", "cache_control": UNSEEN}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
CAME = {"type": "tool_result", "tool_use_id": "c", "content": [SAID], "is_error": True}


def blocks(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(blocks)}, *HI]}


def item(**fields: Any) -> dict[str, Any]:
    return {"input": [{**fields, "id": "i"}, *HI]}


CONFIG = {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}}
# What a field is sent in, by where it stands; the longest place that fits.
BODIES: Mapping[str, dict[str, Any]] = {
    "stream_options": STREAM,
    "stream_options.partial_json": {"stream": True, "stream_options": {"partial_json": True}, **FORMAT},
    "response_format": FORMAT,
    "response_format.schema": {"response_format": {"type": "json_object", "schema": SCHEMA}},
    "tools": {"tools": [TOOL]},
    "tool_choice": NAMED,
    "tool_choice.allowed_tools": ALLOWED,
    "tool_choice.allowed_tools.tools[].name": {"tools": [TOOL], "tool_choice": BARE},
}
BODIES_OF: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "/v1/chat/completions": {
        "logprobs": {"logprobs": True},
        "top_logprobs": {"logprobs": True, "top_logprobs": 2},
        "messages[].content[]": blocks("user", {"type": "text", "text": "hi"}),
        "messages[].tool_calls": {"messages": [{"role": "assistant", "tool_calls": [CALL]}, *HI]},
    },
    "/v1/responses": {
        "input[]": item(role="user", content=[{"type": "input_text", "text": "hi"}]),
        "input[].type": item(type="message", role="user", content="hi"),
        "input[].content[].refusal": item(role="assistant", content=[{"type": "refusal", "refusal": "no"}]),
        **dict.fromkeys(
            ("input[].call_id", "input[].name", "input[].arguments"),
            item(type="function_call", call_id="c", name="f", arguments="{}"),
        ),
        "input[].output": item(type="function_call_output", call_id="c", output=[{"type": "input_text", "text": "hi"}]),
        "input[].summary": item(type="reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
        "text": {"text": {"format": {"type": "json_schema", **JSON_SCHEMA}}},
        "reasoning": {"reasoning": {"effort": "low"}},
        "tools": {"tools": [RESPONSES_TOOL]},
        "tool_choice": {"tools": [RESPONSES_TOOL], "tool_choice": {"type": "function", "name": "f"}},
        "tool_choice.mode": ALLOWED_IN_RESPONSES,
        "tool_choice.tools": ALLOWED_IN_RESPONSES,
    },
    "/v1/messages": {
        "tools": {"tools": [MESSAGES_TOOL]},
        "tools[].cache_control": {"tools": [{**MESSAGES_TOOL, "cache_control": UNSEEN}]},
        "tool_choice": {
            "tools": [MESSAGES_TOOL],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        },
        "messages[].content[]": blocks("user", SAID),
        "messages[].content[].thinking": blocks("assistant", {"type": "thinking", "thinking": "hm"}),
        **dict.fromkeys(
            ("messages[].content[].id", "messages[].content[].name", "messages[].content[].input"),
            blocks("assistant", USE),
        ),
        **dict.fromkeys(
            (
                "messages[].content[].tool_use_id",
                "messages[].content[].content",
                "messages[].content[].content[]",
                "messages[].content[].is_error",
            ),
            blocks("user", CAME),
        ),
        "system": {"system": [SAID]},
        "thinking": THINKING,
        "output_config": CONFIG,
        "output_format": {"output_format": CONFIG["output_config"]["format"]},
    },
    "/tokenize": {
        "messages": {"prompt": None, "messages": HI},
        "messages[].content[]": {"prompt": None, **blocks("user", {"type": "text", "text": "hi"})},
        "messages[].tool_calls": {"prompt": None, "messages": [{"role": "assistant", "tool_calls": [CALL]}, *HI]},
    },
}


@cache
def server(*, strict: bool = False) -> Stand:
    return stand(says("{}"), tool_format=FORMATS["hermes"], strict=strict, store_responses=True)


def body_with(row: Row) -> dict[str, Any]:
    """The least body of the route in which the field can stand, and has a value if it is a supported one."""
    route = row.route.replace("/count_tokens", "")
    known = {**{name: {name: value} for name, value in SAMPLING.items()}, **BODIES, **BODIES_OF.get(route, {})}
    places = [place for place in known if row.field == place or re.match(rf"{re.escape(place)}[.\[]", row.field)]
    beside = known[max(places, key=len)] if places else {}
    return copy.deepcopy({**LEAST[row.route], **beside})


def put(body: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    *places, name = field.split(".")
    inner: Any = body
    for place in places:
        inner = inner[place.removesuffix("[]")][0] if place.endswith("[]") else inner.setdefault(place, {})
    inner[name] = value
    return body


def has(body: Any, field: str) -> bool:
    inner = body
    for place in field.split("."):
        if place.removesuffix("[]") not in inner:
            return False
        inner = inner[place.removesuffix("[]")]
        inner = inner[0] if place.endswith("[]") else inner
    return True


def ignored(response: httpx.Response) -> list[str]:
    named = response.headers.get("x-ignored-fields", "")
    return [re.sub(r"\[\d+\]", "[]", name) for name in named.split(", ")]


def params(status: str) -> Any:
    rows = [row for row in table() if row.status == status and row.route in VIEWS]
    return pytest.mark.parametrize("row", rows, ids=[f"{row.route} {row.field}" for row in rows])


def test_there_are_three_kinds_of_rows() -> None:
    assert {row.status for row in table()} == {"supported", "ignored", "refused"}


@params("supported")
def test_a_supported_field_is_taken_and_another_type_of_value_is_not(row: Row) -> None:
    body = body_with(row)
    if row.field == "previous_response_id":
        body[row.field] = server(strict=True).post(row.route, LEAST[row.route]).json()["id"]
    assert has(body, row.field), "no value to send"
    response = server(strict=True).post(row.route, body)
    assert response.status_code == 200, response.text
    assert row.field not in ignored(response)
    if row.field.endswith(("cache_control", "json_schema.schema", "input[].id")):  # anything; an object, or its text
        return
    wrong = server().post(row.route, put(body, row.field, [[0.5]]))
    assert wrong.status_code in (400, 404)
    told = wrong.json()["error"]
    assert row.field.split("[]")[0].split(".")[0] in (told.get("param") or told["message"])


@params("ignored")
def test_an_ignored_field_is_named_in_the_header(row: Row) -> None:
    body = put(body_with(row), row.field, UNSEEN)
    response = server().post(row.route, body)
    assert response.status_code == 200, response.text
    assert row.field in ignored(response)
    strict = server(strict=True).post(row.route, body)
    assert strict.status_code == (400 if "400 with `--strict`" in row.note else 200)


@params("refused")
def test_a_refused_field_is_a_400_that_says_what_to_do(row: Row) -> None:
    response = server().post(row.route, put(body_with(row), row.field, UNSEEN))
    assert response.status_code == 400
    told = response.json()["error"]
    assert re.sub(r"\[\d+\]", "[]", told.get("param") or told["message"].split(":")[0]) == row.field
    instead = row.note.rpartition("; ")[2] if row.note.startswith("unless") else row.note
    assert re.sub(r"\[\d+\]", "[]", told["message"]).endswith(f"not supported: {row.field}; {instead}")
    _, rules = VIEWS[row.route]
    unless = re.match(r"unless (.*?); ", row.note)
    values = [json.loads(value) for value in re.findall(r"`([^`]+)`", unless[1])] if unless else []
    assert values == list(rules.neutral[row.field])
    for value in values:
        response = server().post(row.route, put(body_with(row), row.field, value))
        assert response.status_code == 200, response.text
        assert row.field not in ignored(response)


@pytest.mark.parametrize("route", QUERIES)
def test_the_parameters_of_a_query_are_what_the_page_says(route: str) -> None:
    values = {"order": "asc", "limit": "5", "include": "reasoning.encrypted_content"}
    for strict in (False, True):
        this = server(strict=strict)
        response_id = this.post("/v1/responses", LEAST["/v1/responses"]).json()["id"]
        path = route.replace("{response}", response_id)
        items = this.request("GET", f"/v1/responses/{response_id}/input_items").json()["data"]
        for row in (row for row in table() if row.route == route):
            value = values.get(row.field, items[0]["id"])
            response = this.request("GET", path, params={row.field: value})
            assert response.status_code == (400 if row.status == "refused" else 200), row
            assert (row.field in ignored(response)) == (row.status == "ignored"), row
            if row.status == "refused":
                assert response.json()["error"]["message"].endswith(row.note.rpartition("; ")[2])
                for asks_for_nothing in QUERIES[route][1].neutral[row.field]:
                    assert f"`{asks_for_nothing}`" in row.note
                    assert this.request("GET", path, params={row.field: asks_for_nothing}).status_code == 200


@pytest.mark.parametrize("route", QUERIES)
def test_an_unknown_parameter_of_a_query_is_named_and_refused_in_strict_mode(route: str) -> None:
    for strict, status in ((False, 200), (True, 400)):
        this = server(strict=strict)
        path = route.replace("{response}", this.post("/v1/responses", LEAST["/v1/responses"]).json()["id"])
        response = this.request("GET", f"{path}?colour=red")
        assert response.status_code == status
        told = response.json()["error"]["param"] if strict else response.headers["x-ignored-fields"]
        assert told == "colour"


@pytest.mark.parametrize("route", QUERIES)
@pytest.mark.parametrize("name", ["include", "include[]"])
def test_what_a_query_wants_included_is_as_in_a_body(route: str, name: str) -> None:
    path = route.replace("{response}", server().post("/v1/responses", LEAST["/v1/responses"]).json()["id"])
    several = {name: ["reasoning.encrypted_content", "web_search_call.results"]}
    assert "x-ignored-fields" not in server().request("GET", path, params=several).headers
    for value in ("message.output_text.logprobs", "anything"):
        response = server().request("GET", path, params={name: ["web_search_call.results", value]})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "include")
