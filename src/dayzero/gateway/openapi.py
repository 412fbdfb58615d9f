"""/openapi.json, made of the structs that requests are decoded into, so that it cannot drift from them."""

import re
from typing import Any

import msgspec

from dayzero.gateway.views.chat import ChatRequest
from dayzero.gateway.views.completions import CompletionRequest
from dayzero.gateway.views.messages import CountTokensRequest, MessagesRequest
from dayzero.gateway.views.responses import ResponsesRequest
from dayzero.gateway.views.tokens import DetokenizeRequest, TokenizeRequest

_REF = "#/components/schemas/{name}"
_JSON = "application/json"
_SSE = "text/event-stream"

_BODIES: tuple[tuple[str, str, type[msgspec.Struct], tuple[str, ...]], ...] = (
    ("/v1/chat/completions", "Continue a conversation", ChatRequest, (_JSON, _SSE)),
    ("/v1/completions", "Continue a prompt", CompletionRequest, (_JSON, _SSE)),
    ("/v1/messages", "Continue a conversation, as Anthropic has it", MessagesRequest, (_JSON, _SSE)),
    ("/v1/messages/count_tokens", "How many tokens a conversation has", CountTokensRequest, (_JSON,)),
    ("/v1/responses", "The next response of a conversation", ResponsesRequest, (_JSON, _SSE)),
    ("/tokenize", "Text or messages to token ids", TokenizeRequest, (_JSON,)),
    ("/detokenize", "Token ids to text", DetokenizeRequest, (_JSON,)),
)
_PLAIN = (
    ("get", "/v1/responses/{response}", "A response that was kept", _JSON),
    ("delete", "/v1/responses/{response}", "Forget a response", _JSON),
    ("post", "/v1/responses/{response}/cancel", "Refused: no response runs in the background", _JSON),
    ("get", "/v1/responses/{response}/input_items", "What a response goes on from", _JSON),
    ("get", "/v1/models", "The served model", _JSON),
    ("get", "/v1/models/{model}", "One model by name", _JSON),
    ("get", "/health", "Whether the server works", _JSON),
    ("get", "/ready", "Whether a request would be taken now", _JSON),
    ("get", "/version", "Version of the server, the weights and the numerics", _JSON),
    ("get", "/metrics", "Prometheus metrics", "text/plain"),
)
_IN_PATH = re.compile(r"{(\w+)}")


def document(version: str) -> dict[str, Any]:
    """The whole description."""
    kinds = [kind for _, _, kind, _ in _BODIES]
    _, schemas = msgspec.json.schema_components([*kinds, ErrorBody, MessagesErrorBody], ref_template=_REF)
    paths: dict[str, Any] = {}
    for path, summary, kind, media in _BODIES:
        body = {"required": True, "content": {_JSON: {"schema": {"$ref": _REF.format(name=kind.__name__)}}}}
        paths[path] = {"post": {"summary": summary, "requestBody": body, "responses": _responses(*media, path=path)}}
    for method, path, summary, media_type in _PLAIN:
        named = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _IN_PATH.findall(path)
        ]
        operation = {"summary": summary, "responses": _responses(media_type)}
        paths.setdefault(path, {})[method] = {**operation, **({"parameters": named} if named else {})}
    paths["/health"]["get"]["security"] = []
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


def _responses(*media_types: str, path: str = "") -> dict[str, Any]:
    kind = MessagesErrorBody if path.startswith("/v1/messages") else ErrorBody
    error = {"description": "Error", "content": {_JSON: {"schema": {"$ref": _REF.format(name=kind.__name__)}}}}
    success = {"description": "Success", "content": {media_type: {} for media_type in media_types}}
    return {"200": success, "default": error}
