"""POST /v1/embeddings: texts to vectors of unit length.

A text is content: nothing in it becomes markup. What is too long is refused, never cut in silence.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.core.pooling import Pooling
from dayzero.errors import ReplicaLost
from dayzero.gateway import exchange
from dayzero.gateway.answer import send_json, until_disconnect, wait_quietly
from dayzero.gateway.aside import aside
from dayzero.gateway.embedding import Embedder, EmbeddingWork, check_dimensions, check_input, numbers, shortened
from dayzero.gateway.fields import check_text_size
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.prompts import RawPrompt, prompts_of
from dayzero.gateway.service import TextService

WRITE_ASIDE_FROM_NUMBERS = 2**15  # about 10 ms
Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class EmbeddingsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that have an effect. None: not given.

    input            a string, token ids, or a list of either
    encoding_format  float: numbers; base64: little-endian float32
    dimensions       the first so many numbers, of unit length again
    pooling          how the hidden states of the tokens become one; else as the model says
    priority         lower runs first
    cache_salt       splits the caller's own prefix cache further
    """

    input: str | list[str | int | list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    pooling: Pooling | None = None
    priority: Priority | None = None
    cache_salt: str | None = None


RULES = FieldRules(
    neutral={
        "add_special_tokens": (True,),
        "input_type": (),
        "messages": (),
        "normalize": (True,),
        "truncate": ("NONE", False),
        "truncate_prompt_tokens": (),
    },
    instead={
        "add_special_tokens": "send token ids",
        "input_type": "write it into the input as the model was trained to have it",
        "messages": "send input",
        "normalize": "leave it out: every embedding has unit length",
        "truncate": "cut the input yourself",
        "truncate_prompt_tokens": "cut the input yourself",
    },
    harmless=frozenset({"user"}),
)


class EmbeddingsView:
    """The endpoint."""

    def __init__(self, service: TextService, embedder: Embedder) -> None:
        self._service = service
        self._embedder = embedder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, EmbeddingsRequest, RULES)
        dimensions = check_dimensions(request.dimensions, service.replica.spec.embedding_size)
        limits = service.config.limits
        given = prompts_of(request.input, most=limits.embedding_inputs, param="input")
        at_once = min(len(given), limits.embedding_inputs_at_once, endpoint.admission.limit)
        this = exchange.of(scope)
        with endpoint.admission.admit(at_once):
            inputs = await self._tokens(given, endpoint.max_context)
            if not service.replica.is_alive:
                raise ReplicaLost("no engine is left")
            work = EmbeddingWork(
                inputs=inputs,
                at_once=at_once,
                pooling=request.pooling or service.replica.spec.pooling,
                endpoint=endpoint.key,
                salt=service.salt(this.tenant, request.cache_salt),
                tenant=this.tenant,
                priority=request.priority or 0,
                deadline_s=service.time_left_s(this.started_s),
            )
            this.prompt_tokens = work.prompt_tokens
            found = await until_disconnect(self._embedder.run(work), receive, service.config.keep_alive_s, wait_quietly)
            is_long = len(found) * dimensions >= WRITE_ASIDE_FROM_NUMBERS
            body = await aside(
                lambda: self._body(request, endpoint.model, found, dimensions, work.prompt_tokens), is_long=is_long
            )
            await send_json(send, body)

    async def _tokens(self, given: Sequence[RawPrompt], context: int) -> list[list[int]]:
        """Of all inputs, each checked."""
        service = self._service
        texts = [text for text in given if isinstance(text, str)]
        for text in texts:
            check_text_size(len(text), context=context, limits=service.config.limits, param="input")
        encode = service.tokenizer.encode_text
        encoded = iter(await service.tokenize(sum(map(len, texts)), lambda: list(map(encode, texts))))
        inputs = [next(encoded) if isinstance(one, str) else one for one in given]
        for tokens in inputs:
            check_input(tokens, service.replica.spec, context)
        return inputs

    def _body(
        self, request: EmbeddingsRequest, model: str, found: Sequence[bytes], dimensions: int, prompt_tokens: int
    ) -> bytes:
        write = base64.b64encode if request.encoding_format == "base64" else numbers
        data = []
        for index, embedding in enumerate(found):
            written: Any = write(shortened(embedding, dimensions))
            data.append(
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": written.decode() if isinstance(written, bytes) else written,
                }
            )
        return msgspec.json.encode(
            {
                "object": "list",
                "data": data,
                "model": model,
                "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
            }
        )
