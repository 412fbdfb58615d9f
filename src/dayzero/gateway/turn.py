"""The next turn of a conversation: what every API of messages asks for, and how that becomes an engine's work.

A view makes a `Turn` of its request and has what comes of it written by a `Format`; nothing between the two depends on
the API.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

from dayzero.core.constraint import Constraint
from dayzero.core.sampling import check_prompt
from dayzero.gateway.answer import Format
from dayzero.gateway.chat_encoder import ChatEncoder
from dayzero.gateway.constrain import bound_by
from dayzero.gateway.endpoint import Endpoint
from dayzero.gateway.fields import GenerationFields, Terms, resolve_max_tokens, sampling_params
from dayzero.gateway.generate import Prompt
from dayzero.gateway.reading import Reader
from dayzero.gateway.service import TextService
from dayzero.gateway.stream import StreamRules
from dayzero.gateway.structured import Structured
from dayzero.gateway.tools import ToolUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a request wants of the next turn. Messages and tools have the forms of chat completions, as templates do.

    fields      how tokens are drawn, and how the answer is sent
    tools       as the template sees them
    use         which of them may or must be called
    max_tokens  None: as many as `most_tokens`, or by default, but no more than fit
    logprobs    how many alternatives come with each token; None: no log-probs
    variables   what the template may ask for beside messages and tools

    `terms`, `use` and `structured` are what `fields.terms_of`, `tools.tool_use` and `structured.structured_of` make of
    a request, and thereby checked.
    """

    fields: GenerationFields
    terms: Terms
    messages: Sequence[Mapping[str, Any]]
    use: ToolUse
    tools: Sequence[Mapping[str, Any]] | None = None
    structured: Structured | None = None
    max_tokens: int | None = None
    most_tokens: int | None = None
    logprobs: int | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A turn that can be run."""

    turn: Turn
    endpoint: Endpoint
    prompt: Prompt
    rules: StreamRules
    constraint: Constraint | None


class Turns:
    """Of one model. A caller of `prepare` and `answer` holds a place of the endpoint's admission for both.

    RequestError names the fields as chat completions do.
    """

    def __init__(self, service: TextService, encoder: ChatEncoder, reader: Reader) -> None:
        self._service = service
        self._encoder = encoder
        self._reader = reader

    async def tokens(self, turn: Turn, endpoint: Endpoint) -> list[int]:
        """The prompt. Raises RequestError."""
        self._reader.check(turn.use)
        tokens = await self._encoder.encode(
            turn.messages,
            context=endpoint.max_context,
            tools=turn.tools,
            add_generation_prompt=turn.add_generation_prompt,
            continue_final_message=turn.continue_final_message,
            variables=turn.variables,
        )
        check_prompt(tokens, self._service.replica.spec.vocab_size, param="messages")
        return tokens

    async def prepare(self, turn: Turn, endpoint: Endpoint) -> Prepared:
        """Everything that can be wrong with a turn is found here. Raises RequestError."""
        service, fields, terms = self._service, turn.fields, turn.terms
        tokens = await self.tokens(turn, endpoint)
        params = sampling_params(
            fields,
            service.defaults,
            seed=terms.seed,
            max_tokens=resolve_max_tokens(
                turn.max_tokens,
                turn.most_tokens or service.defaults.max_new_tokens or service.config.default_max_tokens,
                prompt_tokens=len(tokens),
                context=endpoint.max_context,
                param="messages",
            ),
            vocab_size=service.replica.spec.vocab_size,
            logprobs=turn.logprobs,
        )
        reading = self._reader.reading(turn.use, tokens)
        constraint = await service.constrainer.constraint(turn.structured, [params], use=turn.use, reading=reading)
        rules = StreamRules(
            stops=terms.stops,
            show_stop=bool(fields.include_stop_str_in_output),
            skip_special=fields.skip_special_tokens is not False,
            scored=turn.logprobs is not None,
            reading=reading,
            bound_by=bound_by(turn.structured, turn.use),
        )
        return Prepared(turn=turn, endpoint=endpoint, prompt=Prompt(tokens, params), rules=rules, constraint=constraint)

    async def answer(self, prepared: Prepared, form: Format, connection: tuple[Scope, Receive, Send]) -> None:
        """Generate, and have the answer written by `form`: as a stream, or at once."""
        turn = prepared.turn
        await self._service.answer(
            [prepared.prompt],
            turn.fields,
            turn.terms,
            prepared.rules,
            form,
            connection,
            endpoint=prepared.endpoint,
            constraint=prepared.constraint,
        )
