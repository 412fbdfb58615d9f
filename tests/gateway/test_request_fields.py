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
from dayzero.gateway.views import chat, completions, embeddings, messages, responses, tokens
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
    assert {row.route for row in rows} == VIEWS.keys()


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
        yield from within(rules.shapes.get(field.encode_name, field.type), field.encode_name)


def within(kind: Any, place: str) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
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
    "/v1/chat/completions": {"logprobs": {"logprobs": True}, "top_logprobs": {"logprobs": True, "top_logprobs": 2}},
    "/v1/responses": {
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
        "thinking": THINKING,
        "output_config": CONFIG,
        "output_format": {"output_format": CONFIG["output_config"]["format"]},
    },
    "/tokenize": {"messages": {"prompt": None, "messages": HI}},
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
    rows = [row for row in table() if row.status == status]
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
    if row.field.endswith(("cache_control", "json_schema.schema")):  # anything; an object, or its text
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
    assert (told.get("param") or told["message"].split(":")[0]) == row.field
    instead = row.note.rpartition("; ")[2] if row.note.startswith("unless") else row.note
    assert told["message"].endswith(f"not supported: {row.field}; {instead}")
    _, rules = VIEWS[row.route]
    unless = re.match(r"unless (.*?); ", row.note)
    values = [json.loads(value) for value in re.findall(r"`([^`]+)`", unless[1])] if unless else []
    assert values == list(rules.neutral[row.field])
    for value in values:
        response = server().post(row.route, put(body_with(row), row.field, value))
        assert response.status_code == 200, response.text
        assert row.field not in ignored(response)
