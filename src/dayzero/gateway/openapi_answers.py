"""The answers of every route as /openapi.json describes them.

Views write their answers without these types. That both agree is a test's to say: no field that an answer has may be
missing here.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Has these fields and no others."""


class CachedTokens(Answer, frozen=True, kw_only=True):
    """Of the prompt's tokens, those that were not computed again."""

    cached_tokens: int


class ReasoningTokens(Answer, frozen=True, kw_only=True):
    """Of the output's tokens, those of what the model thought."""

    reasoning_tokens: int


class Usage(Answer, frozen=True, kw_only=True):
    """Tokens of one request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class Collapse(Answer, frozen=True, kw_only=True):
    """An output that repeated itself, and was tried again so often."""

    tier: int
    attempts: int
    discarded_tokens: int


class Function(Answer, frozen=True, kw_only=True):
    """What a model called; `arguments` as JSON text, which may be cut."""

    name: str
    arguments: str


class ToolCall(Answer, frozen=True, kw_only=True):
    """A call that a model made."""

    id: str
    type: Literal["function"]
    function: Function


class ChatMessage(Answer, frozen=True, kw_only=True):
    """What the model said, thought and called."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class LikelyToken(Answer, frozen=True, kw_only=True):
    """A token and how likely it was. Text may be a part of a character; `bytes` are the token's own."""

    token: str
    bytes: list[int]
    logprob: float


class ChosenToken(LikelyToken, frozen=True, kw_only=True):
    """And the likeliest in its place."""

    top_logprobs: list[LikelyToken]


class ChatLogprobs(Answer, frozen=True, kw_only=True):
    """One entry a token."""

    content: list[ChosenToken]
    refusal: None


class Choice(Answer, frozen=True, kw_only=True):
    """What every choice has."""

    index: int
    finish_reason: Literal["stop", "length", "tool_calls"]
    stop_reason: Literal["repetition_detected"] | UnsetType = UNSET
    x_collapse: Collapse | UnsetType = UNSET
    token_ids: list[int] | UnsetType = UNSET


class ChatChoice(Choice, frozen=True, kw_only=True):
    """One reply."""

    message: ChatMessage
    logprobs: ChatLogprobs | None


class TextLogprobs(Answer, frozen=True, kw_only=True):
    """Parallel lists."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(Choice, frozen=True, kw_only=True):
    """One continuation."""

    text: str
    logprobs: TextLogprobs | None
    prompt_token_ids: list[int] | UnsetType = UNSET


class Completion(Answer, frozen=True, kw_only=True):
    """What both kinds of completion have."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    usage: Usage


class ChatCompletion(Completion, frozen=True, kw_only=True):
    """Replies to a conversation."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    prompt_token_ids: list[int] | UnsetType = UNSET


class TextCompletion(Completion, frozen=True, kw_only=True):
    """Continuations of prompts."""

    object: Literal["text_completion"]
    choices: list[TextChoice]


class TextBlock(Answer, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """What the model said."""

    text: str


class ThinkingBlock(Answer, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """What the model thought."""

    thinking: str
    signature: str


class ToolUseBlock(Answer, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    """A call that the model made."""

    id: str
    name: str
    input: dict[str, Any]


class ThinkingTokens(Answer, frozen=True, kw_only=True):
    """Of the output's tokens, those of what the model thought."""

    thinking_tokens: int


class MessageUsage(Answer, frozen=True, kw_only=True):
    """Tokens of one request; those from the cache are not among the input's."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens


class Message(Answer, frozen=True, kw_only=True):
    """A reply to a conversation, as Anthropic has it."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[TextBlock | ThinkingBlock | ToolUseBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]
    stop_sequence: str | None
    usage: MessageUsage
    x_collapse: Collapse | UnsetType = UNSET


class Embedding(Answer, frozen=True, kw_only=True):
    """Of one input: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class InputUsage(Answer, frozen=True, kw_only=True):
    """Tokens of a request without output."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(Answer, frozen=True, kw_only=True):
    """What /v1/embeddings answers."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: InputUsage


class InputTokens(Answer, frozen=True, kw_only=True):
    """How many tokens a prompt has."""

    input_tokens: int


class ResponseUsage(Answer, frozen=True, kw_only=True):
    """Tokens of one response."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class Retention(Answer, frozen=True, kw_only=True):
    """How long, and with how many bytes in all, the responses of a key are kept."""

    seconds: float
    bytes: int


class Response(Answer, frozen=True, kw_only=True):
    """A response, as OpenAI has it. Its items are those of `/v1/responses/{response}/input_items`, and reasoning."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["completed", "incomplete"]
    error: None
    incomplete_details: dict[str, str] | None
    model: str
    output: list[dict[str, Any]]
    usage: ResponseUsage
    store: bool
    background: bool
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    parallel_tool_calls: bool
    presence_penalty: float
    frequency_penalty: float
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: dict[str, str | None]
    safety_identifier: str | None
    service_tier: str
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"]
    user: str | None
    stop_reason: Literal["repetition_detected"] | UnsetType = UNSET
    x_collapse: Collapse | UnsetType = UNSET
    x_retention: Retention | UnsetType = UNSET


class DeletedResponse(Answer, frozen=True, kw_only=True):
    """That a response is forgotten."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(Answer, frozen=True, kw_only=True):
    """A page of items: messages, calls, their outputs, reasoning."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str
    last_id: str
    has_more: bool


class Model(Answer, frozen=True, kw_only=True):
    """A model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(Answer, frozen=True, kw_only=True):
    """All of them."""

    object: Literal["list"]
    data: list[Model]


class Status(Answer, frozen=True, kw_only=True):
    """One word."""

    status: str


class Version(Answer, frozen=True, kw_only=True):
    """What a token is a function of."""

    version: str
    policy_version: str
    numerics_id: str


class Tokens(Answer, frozen=True, kw_only=True):
    """A text as token ids."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | UnsetType = UNSET


class DetokenizedText(Answer, frozen=True, kw_only=True):
    """Token ids as text."""

    prompt: str
