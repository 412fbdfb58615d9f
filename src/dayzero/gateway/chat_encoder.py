"""Messages to tokens, for every view that takes messages."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from dayzero.errors import RequestError
from dayzero.gateway.fields import check_text_size
from dayzero.gateway.parse import FieldRules
from dayzero.gateway.service import TextService
from dayzero.text.chat import encode_rendering
from dayzero.text.conversation import Conversation, Rendering, conversation


class TextPart(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """`messages[].content[]`."""

    text: Any = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`messages[]`. Any other field of a message may be one that the chat template reads."""

    role: Any = None
    content: str | list[TextPart] | None = None
    tool_calls: Any = None


MESSAGE_RULES = FieldRules(
    neutral={"messages[].function_call": ()},
    instead={"messages[].function_call": "send tool_calls"},
    harmless=frozenset({"messages[].content[].cache_control", "messages[].content[].prompt_cache_breakpoint"}),
    inside={"messages": list[ChatMessage]},
    open=frozenset({"messages[]"}),
)


class ChatRenderer(Protocol):
    """A chat template that can be waited for; see `text.rendering.ConfinedTemplate`."""

    async def render(self, chat: Conversation) -> Rendering: ...


class ChatEncoder:
    """Of one model. `renderer` None: it has no chat template."""

    def __init__(self, service: TextService, renderer: ChatRenderer | None) -> None:
        self._service = service
        self._renderer = renderer

    async def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        context: int,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None,
        continue_final_message: bool,
        variables: Mapping[str, Any],
    ) -> list[int]:
        """Raises RequestError, naming the field, for what is no conversation or cannot fit `context` tokens."""
        service = self._service
        if self._renderer is None:
            raise RequestError(
                "this model has no chat template",
                param="messages",
                hint="use /v1/completions, or serve it with --chat-template",
            )
        limits = service.config.limits
        if len(messages) > limits.messages:
            raise RequestError(f"too many messages: {len(messages)} (limit: {limits.messages})", param="messages")
        chat = conversation(
            messages,
            tools=tools,
            add_generation_prompt=(
                not continue_final_message if add_generation_prompt is None else add_generation_prompt
            ),
            continue_final_message=continue_final_message,
            variables=variables,
        )
        num_chars = sum(len(str(message["content"])) for message in chat.messages)
        check_text_size(num_chars, context=context, limits=limits, param="messages")
        rendering = await self._renderer.render(chat)
        return await service.tokenize(len(rendering.text), lambda: encode_rendering(service.tokenizer, rendering))
