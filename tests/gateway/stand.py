"""A gateway over a fake replica and a tokenizer of single bytes: token i < 256 is byte i."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import cycle, islice
from typing import Any

import httpx
import msgspec
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as RawTokenizer

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.clock import Clock
from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.gateway.app import Gateway, create_app
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.openapi import OPERATIONS, statuses
from dayzero.gateway.server import DrainableServer, bind, create_server
from dayzero.grammar.checker import Checker
from dayzero.grammar.format import Format
from dayzero.router.fake import FakeReplica, hashed_embedding
from dayzero.text.conversation import Conversation, Rendering
from dayzero.text.source import TokenizerJson, TokenizerSource
from dayzero.text.template import ChatTemplate
from dayzero.text.tokenizer import Tokenizer
from dayzero.text.veil import Veil, alphabet_of
from dayzero.wire.messages import Submit

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
EOS, START, END = 256, 257, 258
SPEC = EngineSpec(
    model="fake",
    family="fake",
    dtype="float32",
    precision="none",
    vocab_size=260,
    embedding_size=8,
    max_context=512,
    eos_token_ids=(EOS,),
    weight_bytes=0,
    block_size=16,
    kv_blocks=64,
    kv_bytes=0,
    kv_dtype="none",
    max_requests=8,
    max_step_tokens=64,
    threads=1,
    prefix_cache=True,
    numerics_id="fake",
    policy_version="fake-1",
    kernels=(),
)


@cache
def byte_tokenizer(words: tuple[str, ...] = ()) -> Tokenizer:
    """words: tokens from 259 on"""
    raw = RawTokenizer(models.BPE(vocab={_spelling(byte): byte for byte in range(256)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(text, special=True) for text in ("<|eos|>", "<|start|>", "<|end|>")])
    raw.add_tokens(list(words))
    source = TokenizerSource(
        vocabulary=TokenizerJson(json=raw.to_str()),
        chat_template=TEMPLATE,
        add_bos=False,
        bos_token_id=None,
    )
    return Tokenizer.from_source(source)


def _spelling(byte: int) -> str:
    """GPT-2's letter for a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte) if byte in plain else chr(256 + [b for b in range(256) if b not in plain].index(byte))


class PlainRenderer:
    """The template without the processes around it."""

    def __init__(self) -> None:
        self._template = ChatTemplate(TEMPLATE, {})
        self._veil = Veil(alphabet_of(byte_tokenizer().markup))

    async def render(self, chat: Conversation) -> Rendering:
        return self._template.render_veiled(chat, self._veil)


class PlainGate:
    """What tries grammars, without the processes around it."""

    def __init__(self) -> None:
        self._checker = Checker(byte_tokenizer().to_json(), SPEC.vocab_size, SPEC.eos_token_ids)

    async def check(self, grammar: str, param: str) -> None:
        self._checker.check(grammar, param)

    async def lark_of(self, grammar: str, param: str) -> str:
        return self._checker.lark_of(grammar, param)

    async def close(self) -> None:
        pass


def says(
    text: str | bytes | Sequence[int],
    finish: FinishReason | None = FinishReason.STOP,
    *,
    per_event: int | Sequence[int] = 1,
) -> Callable[[Submit], list[TokenEvent]]:
    """A script: these tokens, then the end-of-sequence token if `finish` is STOP; of an embedding, its hash.

    per_event: tokens of each event; several numbers take turns
    """
    tokens = list(text.encode() if isinstance(text, str) else text) + [EOS] * (finish is FinishReason.STOP)

    def script(submit: Submit) -> list[TokenEvent]:
        if submit.pooling is not None:
            return [hashed_embedding(submit, SPEC)]
        rest, sizes = iter(tokens), cycle([per_event] if isinstance(per_event, int) else per_event)
        parts = list(iter(lambda: list(islice(rest, next(sizes))), [])) or [[]]
        events = []
        for i, part in enumerate(parts):
            logprobs = None
            if submit.params.logprobs is not None:
                logprobs = [_logprob(token, submit.params.logprobs) for token in part]
            prompt_logprobs = None
            if i == 0 and submit.params.prompt_logprobs is not None:
                width = submit.params.prompt_logprobs
                prompt_logprobs = [None, *(_logprob(token, width) for token in submit.prompt[1:])]
            is_last = i == len(parts) - 1
            events.append(
                TokenEvent(
                    submit.request_id,
                    part,
                    finish=finish if is_last else None,
                    logprobs=logprobs,
                    prompt_logprobs=prompt_logprobs,
                    cached_tokens=3 if i == 0 else None,
                )
            )
        return events

    return script


def _logprob(token: int, count: int) -> Logprob:
    """The token itself is likeliest, at -0.5; then 65, 66, ..., at -1, -2, ..."""
    top = [(token, -0.5), *((65 + i, -1.0 - i) for i in range(count))][:count]
    return Logprob(token, -0.5, 1, tuple(top))


@dataclass
class Stand:
    """One gateway and what is behind it."""

    gateway: Gateway
    replica: FakeReplica
    config: GatewayConfig
    server: DrainableServer | None = None  # while it is live

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request through ASGI, without a socket. Its answer must be as /openapi.json describes it."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.gateway.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **options)

        response = asyncio.run(send())
        check_described(method, response)
        return response

    def post(self, path: str, body: object = None, **options: Any) -> httpx.Response:
        if isinstance(body, bytes):
            return self.request("POST", path, content=body, **options)
        return self.request("POST", path, json=body, **options)

    def chat(self, content: str = "hi", **fields: Any) -> httpx.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields})

    def complete(self, prompt: object = "hi", **fields: Any) -> httpx.Response:
        return self.post("/v1/completions", {"prompt": prompt, **fields})


def stand(
    script: Any = None,
    *,
    defaults: GenerationDefaults | None = None,
    clock: Clock | None = None,
    renderer: Any = None,
    tool_format: Format | None = None,
    words: tuple[str, ...] = (),
    spec: EngineSpec = SPEC,
    **config: Any,
) -> Stand:
    """Build a gateway; the keywords that are left are those of GatewayConfig."""
    replica = FakeReplica(spec, script or says("hello"))
    settings = GatewayConfig(served_model_name="tiny", cache_secret=b"secret", **config)
    gateway = create_app(
        settings,
        replica,
        byte_tokenizer(words),
        renderer=renderer or PlainRenderer(),
        defaults=defaults or GenerationDefaults(),
        tool_format=tool_format,
        gate=PlainGate(),
        clock=clock,
    )
    return Stand(gateway, replica, settings)


def check_described(method: str, response: httpx.Response) -> None:
    """Fail on an answer of a described operation that has a field or a status which its description has not."""
    for (known, path), operation in OPERATIONS.items():
        if known == method.lower() and re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), response.url.path):
            if response.status_code != 200:
                assert response.status_code in statuses(operation), (method, path, response.status_code)
            elif response.headers["content-type"] == "application/json":
                assert isinstance(operation.answer, type), (method, path)
                msgspec.json.decode(response.content, type=operation.answer)


def sse(response: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream, which must end with [DONE]."""
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line for line in response.text.split("\n\n") if line and not line.startswith(":")]
    assert all(event.startswith("data: ") for event in events)
    assert events[-1] == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never held")


@contextmanager
def run_live(stand: Stand) -> Iterator[tuple[str, int]]:
    listener = bind(GatewayConfig(served_model_name="tiny", port=0))
    listener.listen()
    address = listener.getsockname()[:2]
    server = stand.server = create_server(stand.gateway, stand.config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join()
