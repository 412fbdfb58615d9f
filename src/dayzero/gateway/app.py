"""The composition of one gateway: routes, what is around them, and what they share."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.clock import Clock, SystemClock
from dayzero.gateway import exchange, openapi
from dayzero.gateway.admission import Admission
from dayzero.gateway.chat_encoder import ChatEncoder, ChatRenderer
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.constrain import Constrainer, GrammarGate
from dayzero.gateway.embedding import Embedder
from dayzero.gateway.endpoint import Endpoints
from dayzero.gateway.generate import Generator
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.middleware import Authenticate, BoundBody, ErrorBoundary, Exchanges
from dayzero.gateway.reading import Reader
from dayzero.gateway.replies import reply_for
from dayzero.gateway.response_store import ResponseStore
from dayzero.gateway.service import TextService
from dayzero.gateway.turn import Turns
from dayzero.gateway.views.chat import ChatView
from dayzero.gateway.views.completions import CompletionView
from dayzero.gateway.views.embeddings import EmbeddingsView
from dayzero.gateway.views.health import HealthView, MetricsView, ReadyView, VersionView
from dayzero.gateway.views.messages import CountTokensView, MessagesView
from dayzero.gateway.views.models import ModelsView, ModelView
from dayzero.gateway.views.refused import SCORE_PATHS, TEXT_PATHS, no_scores, no_text
from dayzero.gateway.views.responses import ResponsesView
from dayzero.gateway.views.responses_stored import (
    CancelResponseView,
    DeleteResponseView,
    InputItemsView,
    StoredResponseView,
)
from dayzero.gateway.views.tokens import DetokenizeView, TokenizeView
from dayzero.grammar.format import Format
from dayzero.grammar.gate import Gate
from dayzero.router.replica import Replica
from dayzero.text.tokenizer import Tokenizer
from dayzero.version import __version__


@dataclass(frozen=True, slots=True)
class Gateway:
    """An ASGI application, and the admission that a server drains.

    routes   path and method of everything that is served, /openapi.json included
    close    ends the processes that it started
    """

    app: ASGIApp
    admission: Admission
    routes: tuple[tuple[str, str], ...]
    close: Callable[[], Awaitable[None]]


def create_app(
    config: GatewayConfig,
    replica: Replica,
    tokenizer: Tokenizer,
    *,
    renderer: ChatRenderer | None,
    defaults: GenerationDefaults,
    tool_format: Format | None = None,
    gate: GrammarGate | None = None,
    clock: Clock | None = None,
) -> Gateway:
    """Build a gateway in front of a replica that has started.

    renderer     the model's chat template; None: it has none, and chat is refused
    tool_format  how the model writes reasoning and calls; None: it writes text
    gate         what tries grammars; None: one of its own, in confined processes
    """
    clock = clock or SystemClock()
    spec = replica.spec
    endpoints = Endpoints.of(config, spec)
    metrics = Metrics(lambda: replica.load, endpoints.admission, endpoints.by_key)
    gate = gate or Gate(tokenizer.to_json, spec.vocab_size, spec.eos_token_ids)
    service = TextService(
        config=config,
        replica=replica,
        tokenizer=tokenizer,
        defaults=defaults,
        endpoints=endpoints,
        generator=Generator(replica, tokenizer, metrics, clock),
        constrainer=Constrainer(spec, gate),
        clock=clock,
    )
    api = _routed(_views(service, ChatEncoder(service, renderer), Reader(tool_format, tokenizer), metrics))
    app: ASGIApp = BoundBody(api, config.limits.body_bytes)
    app = Authenticate(app, config.api_keys)
    app = ErrorBoundary(app, config.limits.header_bytes)
    if config.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=config.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=[
                "request-id",
                "x-request-id",
                "x-seed",
                "x-ignored-fields",
                "openai-processing-ms",
                "retry-after",
                "retry-after-ms",
            ],
        )
    routes = tuple((route.path, method) for route in api.routes for method in sorted(route.methods))  # type: ignore[attr-defined]
    return Gateway(Exchanges(app, clock, metrics), endpoints.admission, routes, gate.close)


def _views(
    service: TextService, encoder: ChatEncoder, reader: Reader, metrics: Metrics
) -> dict[tuple[str, str], ASGIApp]:
    """What serves each method and path."""
    models = ModelsView(service.endpoints)
    turns = Turns(service, encoder, reader)
    store = _response_store(service)
    strict = service.config.strict
    views: dict[tuple[str, str], ASGIApp] = {
        ("POST", "/v1/chat/completions"): ChatView(service, turns),
        ("POST", "/v1/completions"): CompletionView(service),
        ("POST", "/v1/messages"): MessagesView(service, turns),
        ("POST", "/v1/messages/count_tokens"): CountTokensView(service, turns),
        ("POST", "/v1/responses"): ResponsesView(service, turns, store),
        ("GET", "/v1/responses/{response}"): StoredResponseView(store, strict=strict),
        ("DELETE", "/v1/responses/{response}"): DeleteResponseView(store),
        ("POST", "/v1/responses/{response}/cancel"): CancelResponseView(store),
        ("GET", "/v1/responses/{response}/input_items"): InputItemsView(store, strict=strict),
        ("POST", "/v1/embeddings"): EmbeddingsView(service, Embedder(service.replica, metrics)),
        **{("POST", path): no_scores() for path in SCORE_PATHS},
        ("GET", "/v1/models"): models,
        ("GET", "/v1/models/{model:path}"): ModelView(models, service.endpoints),
        ("POST", "/tokenize"): TokenizeView(service, encoder),
        ("POST", "/detokenize"): DetokenizeView(service),
        ("GET", "/health"): HealthView(service.replica),
        ("GET", "/ready"): ReadyView(service.replica, service.endpoints.admission),
        ("GET", "/version"): VersionView(service.replica),
        ("GET", "/metrics"): MetricsView(metrics),
    }
    if service.replica.spec.is_encoder:
        views |= {("POST", path): no_text() for path in TEXT_PATHS}
    return views


def _response_store(service: TextService) -> ResponseStore | None:
    config = service.config
    if not config.store_responses:
        return None
    return ResponseStore(tenant_bytes=config.stored_bytes, lifetime_s=config.stored_s, clock=service.clock)


def _routed(views: Mapping[tuple[str, str], ASGIApp]) -> FastAPI:
    """FastAPI routes and describes; the views are plain ASGI, so nothing stands between them and the socket."""
    api = FastAPI(
        title="dayzero",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer, Exception: _answer},
    )
    by_path: dict[str, dict[str, ASGIApp]] = {}
    for (method, path), view in views.items():
        by_path.setdefault(path, {})[method] = view
    for path, by_method in by_path.items():  # one route for all methods of a path: a 405 names each of them
        api.router.routes.append(Route(path, _Named(path, by_method), methods=list(by_method)))
    document = openapi.document(__version__)
    api.openapi = lambda: document  # type: ignore[method-assign]
    return api


class _Named:
    """Writes down which route was taken, for the log and the metrics. HEAD is a GET whose body is not sent."""

    def __init__(self, path: str, views: Mapping[str, ASGIApp]) -> None:
        self._path = path
        self._views = views

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange.of(scope).route = self._path
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._views[method](scope, receive, send)


async def _answer(request: Request, error: Exception) -> Response:
    """The framework's own errors, in our form."""
    reply = reply_for(request.scope, error)
    response = Response(reply.body, reply.status)
    response.raw_headers = list(reply.headers)
    return response
