"""The fields that public APIs have, by route and by whose they are: `public_fields.json`, and where it is from.

OpenAI's and Anthropic's are those of their Python packages, which tests hold against the file where these are
installed; vLLM's, llama.cpp's and SGLang's are what their documentation lists beside OpenAI's.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PUBLIC: Mapping[str, Mapping[str, list[str]]] = json.loads(
    (Path(__file__).parent / "public_fields.json").read_text(encoding="utf-8")
)


def names_of(*kinds: tuple[str, Any]) -> list[str]:
    """The fields of typed dictionaries, each behind the place where its dictionary stands."""
    return sorted({f"{place}{name}" for place, kind in kinds for name in kind.__annotations__})


def openai_fields() -> Mapping[str, list[str]]:
    from openai.types import chat, completion_create_params, embedding_create_params, responses, shared_params
    from openai.types.chat import completion_create_params as chat_params
    from openai.types.responses import (
        input_item_list_params,
        response_create_params,
        response_input_item_param,
        response_reasoning_item_param,
        response_retrieve_params,
    )

    return {
        "/v1/chat/completions": names_of(
            ("", chat_params.CompletionCreateParamsStreaming),
            ("messages[].content[].", chat.ChatCompletionContentPartTextParam),
            ("stream_options.", chat.ChatCompletionStreamOptionsParam),
            ("response_format.", shared_params.ResponseFormatJSONSchema),
            ("response_format.json_schema.", shared_params.response_format_json_schema.JSONSchema),
            ("tools[].", chat.ChatCompletionFunctionToolParam),
            ("tools[].function.", shared_params.FunctionDefinition),
            ("tool_choice.", chat.ChatCompletionNamedToolChoiceParam),
            ("tool_choice.", chat.ChatCompletionAllowedToolChoiceParam),
            ("tool_choice.function.", chat.chat_completion_named_tool_choice_param.Function),
            ("tool_choice.allowed_tools.", chat.ChatCompletionAllowedToolsParam),
        ),
        "/v1/embeddings": names_of(("", embedding_create_params.EmbeddingCreateParams)),
        "/v1/completions": names_of(
            ("", completion_create_params.CompletionCreateParamsStreaming),
            ("stream_options.", chat.ChatCompletionStreamOptionsParam),
        ),
        "/v1/responses": names_of(
            ("", response_create_params.ResponseCreateParamsStreaming),
            ("input[].", responses.EasyInputMessageParam),
            ("input[].", response_input_item_param.Message),
            ("input[].", responses.ResponseOutputMessageParam),
            ("input[].", responses.ResponseFunctionToolCallParam),
            ("input[].", response_input_item_param.FunctionCallOutput),
            ("input[].", responses.ResponseReasoningItemParam),
            ("input[].content[].", responses.ResponseInputTextParam),
            ("input[].content[].", responses.ResponseOutputTextParam),
            ("input[].content[].", responses.ResponseOutputRefusalParam),
            ("input[].content[].", response_reasoning_item_param.Content),
            ("input[].summary[].", response_reasoning_item_param.Summary),
            ("input[].output[].", responses.ResponseInputTextContentParam),
            ("reasoning.", shared_params.Reasoning),
            ("text.", responses.ResponseTextConfigParam),
            ("text.format.", responses.ResponseFormatTextJSONSchemaConfigParam),
            ("tools[].", responses.FunctionToolParam),
            ("tool_choice.", responses.ToolChoiceFunctionParam),
            ("tool_choice.", responses.ToolChoiceAllowedParam),
        ),
        "/v1/responses/{response}": names_of(("", response_retrieve_params.ResponseRetrieveParamsStreaming)),
        "/v1/responses/{response}/input_items": names_of(("", input_item_list_params.InputItemListParams)),
    }


def anthropic_fields() -> Mapping[str, list[str]]:
    from anthropic import types
    from anthropic.types import beta
    from anthropic.types.beta import message_count_tokens_params, message_create_params

    both = (
        ("output_config.", beta.BetaOutputConfigParam),
        ("output_config.format.", types.JSONOutputFormatParam),
        ("thinking.", types.ThinkingConfigEnabledParam),
        ("tools[].", beta.BetaToolParam),
        ("tool_choice.", types.ToolChoiceToolParam),
        ("messages[].", beta.BetaUserMessageParam),
        ("messages[].", beta.BetaAssistantMessageParam),
        ("messages[].", beta.BetaSystemMessageParam),
        ("messages[].content[].", beta.BetaTextBlockParam),
        ("messages[].content[].", beta.BetaThinkingBlockParam),
        ("messages[].content[].", beta.BetaRedactedThinkingBlockParam),
        ("messages[].content[].", beta.BetaToolUseBlockParam),
        ("messages[].content[].", beta.BetaToolResultBlockParam),
        ("messages[].content[].content[].", beta.BetaTextBlockParam),
        ("system[].", beta.BetaTextBlockParam),
    )
    create, count = message_create_params, message_count_tokens_params
    return {
        "/v1/messages": names_of(
            ("", types.message_create_params.MessageCreateParamsStreaming),
            ("", create.MessageCreateParamsStreaming),
            *both,
        ),
        "/v1/messages/count_tokens": names_of(
            ("", types.MessageCountTokensParams), ("", count.MessageCountTokensParams), *both
        ),
    }
