"""In which API's form an error is told: decided by the path, since most errors come before a route is known.

Anthropic's paths have a form of their own,

    {"type": "error", "error": {"type", "message"}, "request_id"}

and all others that of `gateway.errors`, which also decides what a client is told.
"""

import msgspec
from starlette.types import Scope

from dayzero.errors import CapacityError
from dayzero.gateway import exchange
from dayzero.gateway.errors import Reply, error_object, reply_to

_ANTHROPIC_PATH = "/v1/messages"
_OVERLOADED_STATUS = 529  # Anthropic's own
_KIND_BY_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    _OVERLOADED_STATUS: "overloaded_error",
}
# What Anthropic calls the fields that chat completions name in an error.
_FIELDS = {
    "stop": "stop_sequences",
    "chat_template_kwargs.reasoning_effort": "output_config.effort",
}


def reply_for(scope: Scope, error: BaseException) -> Reply:
    """An error that came before the first byte of an answer."""
    path = scope["path"]
    if path != _ANTHROPIC_PATH and not path.startswith(f"{_ANTHROPIC_PATH}/"):
        return reply_to(error)
    return _anthropic_reply(error, exchange.of(scope).id)


def anthropic_error(error: BaseException, request_id: str) -> dict[str, object]:
    """The body. Without a place of its own for the field at fault, the message begins with it."""
    return _body(error, _anthropic_status(error), request_id)


def _anthropic_reply(error: BaseException, request_id: str) -> Reply:
    status = _anthropic_status(error)
    body = msgspec.json.encode(_body(error, status, request_id))
    kept = [header for header in reply_to(error).headers if header[0] != b"content-length"]
    return Reply(status, (*kept, (b"content-length", b"%d" % len(body))), body)


def _anthropic_status(error: BaseException) -> int:
    status = reply_to(error).status
    return _OVERLOADED_STATUS if status == CapacityError.status and isinstance(error, CapacityError) else status


def _body(error: BaseException, status: int, request_id: str) -> dict[str, object]:
    told = error_object(error)
    kind = _KIND_BY_STATUS.get(status, "invalid_request_error" if status < 500 else "api_error")
    param, message = told["param"], told["message"]
    told_message = message if param is None else f"{_place(param)}: {message}"
    return {"type": "error", "error": {"type": kind, "message": told_message}, "request_id": request_id}


def _place(param: str) -> str:
    of_tool = param.replace(".function.parameters", ".input_schema").replace(".function", "")
    return _FIELDS.get(of_tool, of_tool)
