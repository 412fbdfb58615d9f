"""Where the load goes: a base URL, the model it serves, and which made-up prompts it can take.

Everything here happens before the clock of a run starts. Trouble is a ConfigError that says what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from dayzero.errors import ConfigError
from dayzero.workshop.bench.client import error_message, read_bounded
from dayzero.workshop.bench.workloads.dataset import ordinary_text
from dayzero.workshop.bench.workloads.writer import PromptWriter, TokenIdWriter, WordWriter, everyday_words

MAX_BODY_BYTES = 8 * 2**20
SETUP_TIMEOUT_S = 30.0
_MIN_IDS = 32  # fewer distinct ids than this would make prompts that repeat themselves

Body = TypeVar("Body")


@dataclass(frozen=True, slots=True)
class Target:
    """A server as it answered before the run. `version` None: it does not say.

    is_dayzero   its /version says what its numerics are, as no other server's does
    """

    base_url: str
    model: str
    version: str | None
    is_dayzero: bool = False


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Version(msgspec.Struct):
    version: str
    numerics_id: str | None = None


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Usage(msgspec.Struct):
    prompt_tokens: int


class _Completion(msgspec.Struct):
    usage: _Usage


def base_url(url: str) -> str:
    """`http://host:port[/path]`, without a trailing /v1. A bare host:port is taken as http."""
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise ConfigError(f"not a URL of a server: {url}", hint="write it like http://127.0.0.1:8000")
    return full.rstrip("/").removesuffix("/v1")


def open_http(api_key: str | None) -> aiohttp.ClientSession:
    """The HTTP session of a run: as many connections as requests in flight, no deadline of its own."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        headers={"authorization": f"Bearer {api_key}"} if api_key else {},
        timeout=aiohttp.ClientTimeout(total=None),
    )


async def discover(http: aiohttp.ClientSession, url: str, model: str | None) -> Target:
    """Ask what is served; `model` None takes the first of /v1/models."""
    served = [entry.id for entry in (await _require(http, "GET", f"{url}/v1/models", None, _Models)).data]
    if not served:
        raise ConfigError(f"{url} serves no model")
    if model is not None and model not in served:
        raise ConfigError(f"{url} does not serve the model: {model}", hint=f"served: {', '.join(served[:10])}")
    told = await _ask(http, "GET", f"{url}/version", None, _Version)
    version, numerics_id = (None, None) if told is None else (told.version, told.numerics_id)
    return Target(url, model or served[0], version, is_dayzero=numerics_id is not None)


async def choose_writer(http: aiohttp.ClientSession, targets: Sequence[Target], *, text_only: bool) -> PromptWriter:
    """One writer that suits all targets: token ids where they take the same ones, else words, measured on the first."""
    writers = [await _writer(http, target, text_only) for target in targets]
    ids = {writer.ids if isinstance(writer, TokenIdWriter) else None for writer in writers}
    return writers[0] if len(ids) == 1 else await _writer(http, targets[0], text_only=True)


async def _writer(http: aiohttp.ClientSession, target: Target, text_only: bool) -> PromptWriter:
    """Token ids if the server takes them and tells some through /tokenize, else words of a measured length."""
    if not text_only and (ids := await _tokenize(http, target, ordinary_text())):
        probe = {"model": target.model, "prompt": list(ids[:_MIN_IDS]), "max_tokens": 1}
        if await _ask(http, "POST", f"{target.base_url}/v1/completions", probe, _Completion):
            return TokenIdWriter(ids)
    words = everyday_words()
    probe = {"model": target.model, "prompt": " ".join(words), "max_tokens": 1}
    counted = await _require(http, "POST", f"{target.base_url}/v1/completions", probe, _Completion)
    return WordWriter(max(1, counted.usage.prompt_tokens) / len(words))


async def _tokenize(http: aiohttp.ClientSession, target: Target, text: str) -> tuple[int, ...] | None:
    """Distinct ids of `text`. Servers name the field differently: `prompt` (vLLM, SGLang) or `content` (llama.cpp)."""
    bodies: list[dict[str, object]] = [
        {"model": target.model, "prompt": text, "add_special_tokens": False},
        {"content": text, "add_special": False},
    ]
    for body in bodies:
        answer = await _ask(http, "POST", f"{target.base_url}/tokenize", body, _Tokens)
        if answer and len(set(answer.tokens)) >= _MIN_IDS:
            return tuple(sorted(set(answer.tokens)))
    return None


async def _ask(http: aiohttp.ClientSession, method: str, url: str, body: object, kind: type[Body]) -> Body | None:
    """The answer if there is one of that kind; None for anything else: the question was optional."""
    try:
        return await _require(http, method, url, body, kind)
    except ConfigError:
        return None


async def _require(http: aiohttp.ClientSession, method: str, url: str, body: object, kind: type[Body]) -> Body:
    data = None if body is None else msgspec.json.encode(body)
    headers = {"content-type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=SETUP_TIMEOUT_S)
    try:
        async with http.request(method, url, data=data, headers=headers, timeout=timeout) as response:
            status, raw = response.status, await read_bounded(response, MAX_BODY_BYTES)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        hint = "is the server up? `dayzero serve` starts one on http://127.0.0.1:8000"
        raise ConfigError(f"cannot reach {url}: {_cause(error)}", hint=hint) from None
    if status in (401, 403):
        raise ConfigError(f"{url} refuses the key: http {status}", hint="give the server's key with --api-key")
    if status != 200:
        raise ConfigError(f"{url} answered http {status}: {error_message(raw) or 'no message'}")
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(f"{url} is not an OpenAI-compatible API: its answer has another shape") from None


def _cause(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or type(error.os_error).__name__
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
