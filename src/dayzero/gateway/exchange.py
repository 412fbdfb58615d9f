"""What one HTTP exchange has come to: the values behind its response headers, its log line and its metrics."""

import re
import secrets
from dataclasses import dataclass, field

from starlette.types import Scope

_KEY = "dayzero.exchange"
_CLIENT_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
UNMATCHED = "unmatched"  # the path of a request that no route serves is the client's text: it is not repeated


@dataclass(slots=True, kw_only=True)
class Exchange:
    """Filled in from the outside in. Holds no text of prompt or output.

    id       echoed if the client gave one that is plain, else drawn; never a key of anything
    route    the pattern that matched, e.g. /v1/models/{model}
    tenant   digest of the api key; "" without keys
    seed     of a generation: what its answer can be had again with
    endpoint   what the engine calls the one that the request is for; "" if there is but one
    """

    id: str
    started_s: float
    route: str = UNMATCHED
    tenant: str = ""
    status: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seed: int | None = None
    endpoint: str = ""
    ignored_fields: list[str] = field(default_factory=list)


def begin(scope: Scope, now_s: float) -> Exchange:
    """Attach a new exchange to an ASGI scope."""
    exchange = Exchange(id=_request_id(scope), started_s=now_s)
    scope[_KEY] = exchange
    return exchange


def of(scope: Scope) -> Exchange:
    """The exchange that `begin` attached."""
    exchange = scope[_KEY]
    assert isinstance(exchange, Exchange)
    return exchange


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _CLIENT_ID.fullmatch(value):
            return str(value, "ascii")
    return f"req_{secrets.token_hex(16)}"
