"""A turn is prepared in one way, whichever view asked for it."""

import asyncio
from typing import Any

import pytest

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.clock import FakeClock
from dayzero.errors import ContextTooLong, RequestError
from dayzero.gateway.chat_encoder import ChatEncoder
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.constrain import Constrainer
from dayzero.gateway.endpoint import Endpoints
from dayzero.gateway.fields import GenerationFields, terms_of
from dayzero.gateway.generate import Generator
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.reading import Reader
from dayzero.gateway.service import TextService
from dayzero.gateway.structured import structured_of
from dayzero.gateway.tools import ToolUse, tool_use
from dayzero.gateway.turn import Prepared, Turn, Turns
from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.router.fake import FakeReplica
from tests.gateway.stand import SPEC, PlainGate, PlainRenderer, byte_tokenizer

CONFIG = GatewayConfig(served_model_name="tiny", default_max_tokens=64)
ENDPOINTS = Endpoints.of(CONFIG, SPEC)
HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "strict": True, "parameters": {"type": "object"}}}]


def turns(tool_format: Format | None = None, defaults: GenerationDefaults | None = None) -> Turns:
    clock, replica, tokenizer = FakeClock(), FakeReplica(SPEC), byte_tokenizer()
    service = TextService(
        config=CONFIG,
        replica=replica,
        tokenizer=tokenizer,
        defaults=defaults or GenerationDefaults(),
        endpoints=ENDPOINTS,
        generator=Generator(replica, tokenizer, Metrics(lambda: replica.load, ENDPOINTS.admission), clock),
        constrainer=Constrainer(SPEC, PlainGate()),
        clock=clock,
    )
    return Turns(service, ChatEncoder(service, PlainRenderer()), Reader(tool_format, tokenizer))


def turn(use: ToolUse | None = None, fields: dict[str, Any] | None = None, **rest: Any) -> Turn:
    given = GenerationFields(**(fields or {}))
    return Turn(
        fields=given,
        terms=terms_of(given, CONFIG.limits),
        use=use or ToolUse(),
        structured=structured_of(given, CONFIG.limits),
        **{"messages": HI, **rest},
    )


def prepared(this: Turns, asked: Turn) -> Prepared:
    return asyncio.run(this.prepare(asked, ENDPOINTS.find(None)))


def test_the_tokens_that_are_counted_are_those_of_the_prompt() -> None:
    this = turns()
    assert asyncio.run(this.tokens(turn(), ENDPOINTS.find(None))) == prepared(this, turn()).prompt.tokens


@pytest.mark.parametrize(
    ("fields", "default", "max_tokens"),
    [
        ({"max_tokens": 9}, None, 9),
        ({"most_tokens": 9}, None, 9),
        ({"max_tokens": 9, "most_tokens": 5}, None, 9),
        ({}, None, 64),
        ({}, 33, 33),
        ({"most_tokens": 9}, 33, 9),
    ],
)
def test_how_many_tokens_may_come(fields: dict[str, int], default: int | None, max_tokens: int) -> None:
    this = turns(defaults=GenerationDefaults(max_new_tokens=default))
    assert prepared(this, turn(**fields)).prompt.params.max_tokens == max_tokens


def test_at_most_so_many_is_what_fits_and_exactly_so_many_is_refused_if_it_does_not() -> None:
    found = prepared(turns(), turn(most_tokens=10_000)).prompt
    assert len(found.tokens) + found.params.max_tokens == SPEC.max_context
    with pytest.raises(ContextTooLong):
        prepared(turns(), turn(max_tokens=10_000))


def test_what_binds_and_what_reads_the_output_come_with_it() -> None:
    use = tool_use(TOOLS, "required", None, CONFIG.limits)
    found = prepared(turns(FORMATS["hermes"]), turn(use, tools=TOOLS))
    assert found.constraint is not None
    assert found.constraint.grammar
    assert found.rules.reading is not None
    assert [tool.name for tool in found.rules.reading.tools] == ["weather"]
    plain = prepared(turns(), turn())
    assert (plain.constraint, plain.rules.reading) == (None, None)


def test_tools_that_nobody_knows_how_to_call_are_refused_even_where_tokens_are_only_counted() -> None:
    asked = turn(tool_use(TOOLS, None, None, CONFIG.limits), tools=TOOLS)
    with pytest.raises(RequestError) as raised:
        asyncio.run(turns().tokens(asked, ENDPOINTS.find(None)))
    assert raised.value.param == "tools"


def test_how_it_is_shown_is_what_the_fields_say() -> None:
    fields = {"stop": ["x"], "include_stop_str_in_output": True, "skip_special_tokens": False}
    rules = prepared(turns(), turn(fields=fields, logprobs=2)).rules
    assert (rules.stops, rules.show_stop, rules.skip_special, rules.scored) == (("x",), True, False, True)
