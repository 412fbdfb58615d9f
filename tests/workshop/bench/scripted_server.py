"""A server that answers each POST with the next of its scripts, and keeps what it was asked."""

import asyncio
from dataclasses import dataclass, field

import msgspec
from aiohttp import web


def event(chunk: object) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def chat_chunk(text: str, **more: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more})


def usage(prompt_tokens: int, output_tokens: int, cached_tokens: int | None = None) -> dict[str, object]:
    details = {} if cached_tokens is None else {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
    return {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens, **details}


ROLE = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
DONE = b"data: [DONE]\n\n"


def answer(*texts: str, prompt_tokens: int = 5) -> "Stream":
    """A whole chat answer, one chunk for each text."""
    last = event({"choices": [], "usage": usage(prompt_tokens, len(texts))})
    return Stream([ROLE, *(chat_chunk(text) for text in texts), FINISH, last, DONE])


@dataclass
class Stream:
    """Pieces of a body, each a write of its own; `end` says what follows: the end, a hang, or a broken connection."""

    pieces: list[bytes]
    end: str = "close"


@dataclass
class Refusal:
    status: int
    body: object
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedServer:
    """After the last script the first comes again."""

    def __init__(
        self, *scripts: Stream | Refusal, models: object = None, tokenize: object = None, version: object = None
    ) -> None:
        self.scripts = scripts
        self.bodies: list[dict] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._models = {"data": [{"id": "m"}]} if models is None else models
        self._tokenize = tokenize
        self._version = version
        self._released = asyncio.Event()
        self._asked = asyncio.Condition()

    async def __aenter__(self) -> "ScriptedServer":
        app = web.Application()
        app.router.add_get("/v1/models", self._serve_models)
        app.router.add_get("/version", self._serve_version)
        app.router.add_post("/tokenize", self._serve_tokens)
        app.router.add_post("/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._released.set()
        await self._runner.cleanup()

    async def asked(self, count: int) -> None:
        """Wait until so many POSTs have come."""
        async with self._asked:
            await self._asked.wait_for(lambda: len(self.bodies) >= count)

    async def _serve_models(self, _request: web.Request) -> web.Response:
        if isinstance(self._models, Refusal):
            return self._refuse(self._models)
        return web.json_response(self._models)

    async def _serve_tokens(self, _request: web.Request) -> web.Response:
        return web.json_response(self._tokenize) if self._tokenize else web.Response(status=404)

    async def _serve_version(self, _request: web.Request) -> web.Response:
        return web.json_response(self._version) if self._version else web.Response(status=404)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        script = self.scripts[len(self.bodies) % len(self.scripts)]
        self.bodies.append(msgspec.json.decode(await request.read()))
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        async with self._asked:
            self._asked.notify_all()
        return self._refuse(script) if isinstance(script, Refusal) else await self._stream(request, script)

    def _refuse(self, refusal: Refusal) -> web.Response:
        return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)

    async def _stream(self, request: web.Request, script: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in script.pieces:
            await response.write(piece)
        if script.end == "hang":
            await self._released.wait()
        if script.end == "break":
            assert request.transport is not None
            request.transport.abort()
        return response
