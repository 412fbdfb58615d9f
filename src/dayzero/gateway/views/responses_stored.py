"""What was kept of responses: GET and DELETE /v1/responses/{response}, its input items, and cancelling it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.errors import RequestError
from dayzero.gateway import exchange
from dayzero.gateway.answer import send_json
from dayzero.gateway.errors import UnknownResponse
from dayzero.gateway.parse import FieldRules, without_effect
from dayzero.gateway.response_store import ResponseStore, StoredResponse
from dayzero.gateway.views.responses_input import check_include

# Of a query: the names that have an effect, and what becomes of others. Official clients send lists as `include[]`.
INCLUDE = ("include", "include[]")
RESPONSE_QUERY: Mapping[str, Any] = dict.fromkeys(INCLUDE, str)
RESPONSE_RULES = FieldRules(
    neutral={"stream": ("false", "0")},
    instead={"stream": "leave it out: it is told at once"},
    harmless=frozenset({"include_obfuscation", "starting_after"}),
)
PAGE_QUERY: Mapping[str, Any] = dict.fromkeys(("order", "limit", "after", *INCLUDE), str)
PAGE_RULES = FieldRules(neutral={})
_DEFAULT_ITEMS = 20
_MAX_ITEMS = 100


def find_stored(
    store: ResponseStore | None, tenant: str, response_id: str, *, param: str | None = None
) -> StoredResponse:
    """UnknownResponse if this tenant has none of that id."""
    found = None if store is None else store.get(tenant, response_id)
    if found is None:
        raise _unknown(store, param)
    return found


def _unknown(store: ResponseStore | None, param: str | None = None) -> UnknownResponse:
    if store is None:
        hint = (
            "this server keeps no responses: serve it with --store-responses, or send the whole conversation as input"
        )
    else:
        hint = f"responses are kept for {store.lifetime_s:g} s, for the key that they were answered to"
    return UnknownResponse("no such response", param=param, hint=hint)


class StoredResponseView:
    """GET: the response as it was answered. It is not told again as a stream."""

    def __init__(self, store: ResponseStore | None, *, strict: bool) -> None:
        self._store = store
        self._strict = strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        found = _found(self._store, scope)
        _query(scope, RESPONSE_QUERY, RESPONSE_RULES, strict=self._strict)
        await send_json(send, found.body)


class DeleteResponseView:
    """DELETE: forget it now."""

    def __init__(self, store: ResponseStore | None) -> None:
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        response_id = scope["path_params"]["response"]
        if self._store is None or not self._store.delete(exchange.of(scope).tenant, response_id):
            raise _unknown(self._store)
        await send_json(send, msgspec.json.encode({"id": response_id, "object": "response", "deleted": True}))


class CancelResponseView:
    """POST: only what runs in the background can be cancelled, and here nothing does."""

    def __init__(self, store: ResponseStore | None) -> None:
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        _found(self._store, scope)
        raise RequestError(
            "this response does not run in the background", hint="to cancel one that runs, close its connection"
        )


class InputItemsView:
    """GET: the items that a response goes on from, those of the responses before it included; the last one first."""

    def __init__(self, store: ResponseStore | None, *, strict: bool) -> None:
        self._store = store
        self._strict = strict

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        items = msgspec.json.decode(_found(self._store, scope).items)
        query = _query(scope, PAGE_QUERY, PAGE_RULES, strict=self._strict)
        await send_json(send, msgspec.json.encode(page_of(items, query)))


def page_of(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """One page of a list. `query` has `order`, `limit` and `after`, an item's id."""
    order, limit, after = query.get("order", "desc"), query.get("limit", str(_DEFAULT_ITEMS)), query.get("after")
    if order not in ("asc", "desc"):
        raise RequestError("unknown order", param="order", hint="known: asc, desc")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 3 and 1 <= int(limit) <= _MAX_ITEMS):
        raise RequestError("limit out of range", param="limit", hint=f"allowed: 1 to {_MAX_ITEMS}")
    ordered = items if order == "asc" else items[::-1]
    if after is not None:
        places = [number for number, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise RequestError("no such item", param="after", hint="send the id of an item of this list")
        ordered = ordered[places[0] + 1 :]
    page = ordered[: int(limit)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": len(page) < len(ordered),
    }


def _found(store: ResponseStore | None, scope: Scope) -> StoredResponse:
    return find_stored(store, exchange.of(scope).tenant, scope["path_params"]["response"])


def _query(scope: Scope, known: Mapping[str, Any], rules: FieldRules, *, strict: bool) -> dict[str, str]:
    """The last value of each name; those without effect are noted for the answer. Bounded with the headers."""
    try:
        found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=16)
    except ValueError:
        raise RequestError("malformed query") from None
    for name in INCLUDE:
        check_include(found.get(name, ()))
    query = {name: values[-1] for name, values in found.items()}
    exchange.of(scope).ignored_fields += without_effect(query, known, rules, strict=strict)
    return query
