"""POST /tokenize and /detokenize, with the field names that users of other servers know."""

from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from dayzero.core.sampling import check_prompt
from dayzero.errors import RequestError
from dayzero.gateway.answer import send_json
from dayzero.gateway.chat_encoder import MESSAGE_RULES, ChatEncoder
from dayzero.gateway.fields import check_text_size
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.service import TextService

RULES = MESSAGE_RULES | FieldRules(
    neutral={"add_special": (), "chat_template": (), "content": (), "tools": ([],), "with_pieces": (False,)},
    instead={
        "add_special": "send add_special_tokens",
        "chat_template": "serve the model with --chat-template",
        "content": "send prompt",
        "tools": "send all of it to /v1/messages/count_tokens",
        "with_pieces": "send return_token_strs",
    },
    harmless=frozenset({"mm_processor_kwargs"}),
)


DETOKENIZE_RULES = FieldRules(neutral={})


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Either `prompt`, as /v1/completions tokenizes it (of an encoder: as /v1/embeddings does), or `messages`."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    parse_special: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Token ids."""

    tokens: list[int]
    model: str | None = None


class TokenizeView:
    """Text or messages to ids."""

    def __init__(self, service: TextService, encoder: ChatEncoder) -> None:
        self._service = service
        self._encoder = encoder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, TokenizeRequest, RULES)
        with endpoint.admission.admit(1):
            tokens = await self._tokens(request, endpoint.max_context)
        body: dict[str, Any] = {"count": len(tokens), "max_model_len": endpoint.max_context, "tokens": tokens}
        if request.return_token_strs:
            body["token_strs"] = [service.tokenizer.token_bytes(token).decode("utf-8", "replace") for token in tokens]
        await send_json(send, msgspec.json.encode(body))

    async def _tokens(self, request: TokenizeRequest, context: int) -> list[int]:
        service = self._service
        prompt = request.prompt
        if (prompt is None) == (request.messages is None):
            raise RequestError("give either prompt or messages", param="prompt")
        if request.messages is not None:
            return await self._encoder.encode(
                request.messages,
                context=context,
                add_generation_prompt=request.add_generation_prompt,
                continue_final_message=bool(request.continue_final_message),
                variables=request.chat_template_kwargs or {},
            )
        assert prompt is not None
        check_text_size(len(prompt), context=context, limits=service.config.limits, param="prompt")
        is_encoder = service.replica.spec.is_encoder
        whole = service.tokenizer.encode_text if is_encoder else service.tokenizer.encode_prompt
        encode = service.tokenizer.encode if request.add_special_tokens is False else whole
        special = not is_encoder if request.parse_special is None else request.parse_special
        return await service.tokenize(len(prompt), lambda: encode(prompt, special=special))


class DetokenizeView:
    """Ids to text, special tokens included; no more than a context has, which bounds the text."""

    def __init__(self, service: TextService) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        request, endpoint = await service.read(scope, receive, DetokenizeRequest, DETOKENIZE_RULES)
        if len(request.tokens) > endpoint.max_context:
            raise RequestError(
                f"too many tokens: {len(request.tokens)} (limit: {endpoint.max_context})", param="tokens"
            )
        if request.tokens:
            check_prompt(request.tokens, service.replica.spec.vocab_size, param="tokens")
        text = service.tokenizer.decode(request.tokens, skip_special=False)
        await send_json(send, msgspec.json.encode({"prompt": text}))
