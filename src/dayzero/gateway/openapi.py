"""/openapi.json, made of the structs that requests are decoded into, so that it cannot drift from them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dayzero.gateway import openapi_answers as answers
from dayzero.gateway.views.chat import ChatRequest
from dayzero.gateway.views.completions import CompletionRequest
from dayzero.gateway.views.embeddings import EmbeddingsRequest
from dayzero.gateway.views.messages import CountTokensRequest, MessagesRequest
from dayzero.gateway.views.refused import SCORE_PATHS
from dayzero.gateway.views.responses import ResponsesRequest
from dayzero.gateway.views.responses_input import INCLUDABLE
from dayzero.gateway.views.tokens import DetokenizeRequest, TokenizeRequest

_JSON = "application/json"
_SSE = "text/event-stream"
_TEXT = "text/plain"

# What every route may answer, then what those may that read a body, and those that generate.
_ANY = (401, 413, 431, 500)
_BODY = (400, 404, 408, 429)
_GENERATES = (*_BODY, 503, 504)
_MEANING = {
    400: "The request is at fault",
    401: "No valid key",
    404: "No such model or response",
    408: "The body did not arrive in time",
    413: "The body is too large",
    429: "As many requests wait as may wait",
    431: "The headers are too large",
    500: "The server is at fault",
    503: "The server is overloaded, shutting down or without an engine",
    504: "The request took longer than it may",
    529: "The server is overloaded or shutting down",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    answer   of a success, as JSON; a media type if it is something else; None: it never succeeds
    body     what a request is decoded into
    example  of one that any server answers
    streams  answers with events too, if the request says so
    errors   beside those that every route has
    query    JSON Schemas of parameters
    names    the parameter of other paths that the `id` of its answer is
    """

    summary: str
    answer: type[msgspec.Struct] | str | None
    body: type[msgspec.Struct] | None = None
    example: Mapping[str, object] | None = None
    streams: bool = False
    errors: tuple[int, ...] = ()
    query: Mapping[str, object] = field(default_factory=dict)
    names: str | None = None
    is_open: bool = False


_HELLO = [{"role": "user", "content": "Hello!"}]
_CHAT = {"messages": _HELLO, "max_tokens": 16}
_INCLUDE = {
    "include": {"type": "array", "items": {"enum": sorted(INCLUDABLE)}, "uniqueItems": True},
}
_PAGE = {
    **_INCLUDE,
    "order": {"enum": ["asc", "desc"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "after": {"type": "string"},
}
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("post", "/v1/chat/completions"): Operation(
        summary="Continue a conversation",
        body=ChatRequest,
        example=_CHAT,
        answer=answers.ChatCompletion,
        streams=True,
        errors=_GENERATES,
    ),
    ("post", "/v1/completions"): Operation(
        summary="Continue a prompt",
        body=CompletionRequest,
        example={"prompt": "Once", "max_tokens": 16},
        answer=answers.TextCompletion,
        streams=True,
        errors=_GENERATES,
    ),
    ("post", "/v1/messages"): Operation(
        summary="Continue a conversation, as Anthropic has it",
        body=MessagesRequest,
        example=_CHAT,
        answer=answers.Message,
        streams=True,
        errors=(*_GENERATES, 529),
    ),
    ("post", "/v1/messages/count_tokens"): Operation(
        summary="How many tokens a conversation has",
        body=CountTokensRequest,
        example={"messages": _HELLO},
        answer=answers.InputTokens,
        errors=(*_BODY, 529),
    ),
    ("post", "/v1/responses"): Operation(
        summary="The next response of a conversation",
        body=ResponsesRequest,
        example={"input": "Hello!", "max_output_tokens": 16},
        answer=answers.Response,
        streams=True,
        errors=_GENERATES,
        names="response",
    ),
    ("get", "/v1/responses/{response}"): Operation(
        summary="A response that was kept", answer=answers.Response, errors=(400, 404), query=_INCLUDE
    ),
    ("delete", "/v1/responses/{response}"): Operation(
        summary="Forget a response", answer=answers.DeletedResponse, errors=(404,)
    ),
    ("post", "/v1/responses/{response}/cancel"): Operation(
        summary="Refused: no response runs in the background", answer=None, errors=(400, 404)
    ),
    ("get", "/v1/responses/{response}/input_items"): Operation(
        summary="What a response goes on from", answer=answers.ItemList, errors=(400, 404), query=_PAGE
    ),
    ("post", "/v1/embeddings"): Operation(
        summary="Texts to vectors",
        body=EmbeddingsRequest,
        example={"input": "Hello!"},
        answer=answers.EmbeddingList,
        errors=_GENERATES,
    ),
    **{
        ("post", path): Operation(summary="Refused: no model here scores pairs of texts", answer=None, errors=(400,))
        for path in SCORE_PATHS
    },
    ("get", "/v1/models"): Operation(summary="The served model", answer=answers.ModelList),
    ("get", "/v1/models/{model}"): Operation(summary="One model by name", answer=answers.Model, errors=(404,)),
    ("post", "/tokenize"): Operation(
        summary="Text or messages to token ids",
        body=TokenizeRequest,
        example={"prompt": "Hello!"},
        answer=answers.Tokens,
        errors=(*_BODY, 503),
    ),
    ("post", "/detokenize"): Operation(
        summary="Token ids to text",
        body=DetokenizeRequest,
        example={"tokens": [1, 2, 3]},
        answer=answers.DetokenizedText,
        errors=_BODY,
    ),
    ("get", "/health"): Operation(
        summary="Whether the server works", answer=answers.Status, errors=(503,), is_open=True
    ),
    ("get", "/ready"): Operation(summary="Whether a request would be taken now", answer=answers.Status, errors=(503,)),
    ("get", "/version"): Operation(
        summary="Version of the server, the weights and the numerics", answer=answers.Version
    ),
    ("get", "/metrics"): Operation(summary="Prometheus metrics", answer=_TEXT),
}
_IN_PATH = re.compile(r"{(\w+)}")


def document(version: str) -> dict[str, Any]:
    """The whole description."""
    kinds = [kind for one in OPERATIONS.values() for kind in (one.body, one.answer) if isinstance(kind, type)]
    _, schemas = msgspec.json.schema_components(
        [*kinds, ErrorBody, MessagesErrorBody], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method] = _described(method, path, operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "dayzero", "version": version},
        "paths": paths,
        "security": [{"key": []}, {"x-api-key": []}],
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer that is no success."""

    error: ErrorDetail


class MessagesErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as Anthropic has it."""

    type: str
    message: str


class MessagesErrorBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """Every answer of /v1/messages and of what is below it that is no success."""

    error: MessagesErrorDetail
    request_id: str


def _described(method: str, path: str, operation: Operation) -> dict[str, Any]:
    in_path = [(name, "path", {"type": "string"}) for name in _IN_PATH.findall(path)]
    in_query = [(name, "query", schema) for name, schema in operation.query.items()]
    described: dict[str, Any] = {
        "operationId": _id(method, path),
        "summary": operation.summary,
        "responses": _responses(path, operation),
    }
    if in_path or in_query:
        described["parameters"] = [
            {"name": name, "in": place, "required": place == "path", "schema": schema}
            for name, place, schema in in_path + in_query
        ]
    if operation.body is not None:
        content = {"schema": _reference(operation.body), "examples": _examples(operation)}
        described["requestBody"] = {"required": True, "content": {_JSON: content}}
    if operation.is_open:
        described["security"] = []
    return described


def _examples(operation: Operation) -> dict[str, Any]:
    plain = dict(operation.example or {})
    stream = {"stream": {"value": {**plain, "stream": True}}} if operation.streams else {}
    return {"plain": {"value": plain}, **stream}


def statuses(operation: Operation) -> frozenset[int]:
    """Those of its errors."""
    return frozenset({*_ANY, *operation.errors} - ({401} if operation.is_open else set()))


def _responses(path: str, operation: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if operation.answer is not None:
        told["200"] = {"description": "Success", "content": _content(operation.answer)}
        if operation.streams:
            told["200"]["content"][_SSE] = {}
        if operation.names is not None:
            told["200"]["links"] = _links(operation.names)
    error = _reference(MessagesErrorBody if path.startswith("/v1/messages") else ErrorBody)
    for status in sorted(statuses(operation)):
        told[str(status)] = {"description": _MEANING[status], "content": {_JSON: {"schema": error}}}
    return told


def _links(name: str) -> dict[str, Any]:
    """The operations whose path has such a parameter."""
    parameters = {name: "$response.body#/id"}
    ids = [_id(method, path) for method, path in OPERATIONS if f"{{{name}}}" in path]
    return {operation_id: {"operationId": operation_id, "parameters": parameters} for operation_id in ids}


def _id(method: str, path: str) -> str:
    """As get_v1_models_model."""
    return "_".join([method, *re.findall(r"\w+", path)])


def _content(answer: type[msgspec.Struct] | str) -> dict[str, Any]:
    return {answer: {}} if isinstance(answer, str) else {_JSON: {"schema": _reference(answer)}}


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
