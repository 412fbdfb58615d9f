"""Grammars of answers with calls, of the same record of which the parser is made.

What they accept, the parser reads as calls of the tools that are offered, with arguments that fit their schemas. They
do not bind the `format` of strings that stand without quotes. Where arguments are not written as JSON, those that a
schema does not name are taken only if it names none or says that there are others, and a schema that cannot be bound is
refused by a RequestError that names the keyword.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from dayzero.errors import RequestError
from dayzero.grammar.format import Format, Shape
from dayzero.grammar.gemma_grammar import GemmaGrammar
from dayzero.grammar.lark import NOTHING, Lark
from dayzero.grammar.message_grammar import MessageGrammar
from dayzero.grammar.shapes.enveloped import BareEnvelopes, Enveloped, EnvelopedList
from dayzero.grammar.shapes.gemma import Noted
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.shapes.named import Named
from dayzero.grammar.shapes.pythonic import Pythonic
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.subschema import (
    Schema,
    arguments_schema,
    length_of,
    others_of,
    pattern_of,
    properties_of,
    texts_of,
    words_of,
)
from dayzero.grammar.tagged_object import is_string_schema
from dayzero.grammar.tools import Tool
from dayzero.grammar.wanted import Wanted

_ANY_KEY = r'[^\s<>"=]{1,64}'  # of arguments that a schema does not name
_PYTHON_NAME = r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,255}"

_PYTHON_WORDS = (("boolean", '"True" | "False"'), ("null", '"None"'))


class AnswerGrammar(Protocol):
    """The grammars of answers with calls. `starts_in_reasoning`: the prompt has begun what the model thinks."""

    def calls(self, *, starts_in_reasoning: bool) -> str:
        """An answer that is calls, at least one, and before them nothing but what the model thinks."""
        ...

    def text_and_calls(self, *, starts_in_reasoning: bool) -> str:
        """Any answer, in which calls are as they should be."""
        ...

    def wanted_or_calls(self, wanted: Wanted, *, starts_in_reasoning: bool) -> str:
        """An answer that is what was wanted, or calls if there are tools, behind what the model thinks."""
        ...


def grammar_for(
    format: Format,  # noqa: A002 - what it is called everywhere
    tools: Sequence[Tool],
    *,
    parallel: bool,
    token_ids: Mapping[str, int],
    eos_token_ids: Collection[int],
) -> AnswerGrammar:
    """The grammars of this format. `eos_token_ids`: of which its marks may be some."""
    if isinstance(format.shape, Messages):
        return MessageGrammar(format.shape, tools, parallel=parallel, token_ids=token_ids, eos_token_ids=eos_token_ids)
    return CallGrammar(format, tools, parallel=parallel, token_ids=token_ids)


class CallGrammar:
    """The grammars of calls in one format, as llguidance's source.

    tools       that may be called; arguments fit their schemas. None: only `wanted_or_calls` has a meaning
    parallel    False: one call in an answer
    token_ids   of the markers that are one token of the vocabulary
    """

    def __init__(
        self,
        format: Format,  # noqa: A002 - what it is called everywhere
        tools: Sequence[Tool],
        *,
        parallel: bool,
        token_ids: Mapping[str, int],
    ) -> None:
        assert not isinstance(format.shape, Messages), f"{format.name} is bound by MessageGrammar"
        self._format = format
        self._shape = format.shape
        self._tools = tools
        self._parallel = parallel
        self._token_ids = token_ids

    def rest(self) -> str:
        """What follows a trigger, up to the end of what it began."""
        lark = Lark(self._token_ids)
        return lark.source(self._section(lark, is_triggered=bool(self._triggers)))

    def calls(self, *, starts_in_reasoning: bool) -> str:
        """An answer that is calls, at least one, and before them nothing but what the model thinks."""
        lark = Lark(self._token_ids)
        calls, begun = self._calls(lark)
        return lark.source(self._after_thoughts(lark, calls, begun, starts_in_reasoning=starts_in_reasoning))

    def wanted_or_calls(self, wanted: Wanted, *, starts_in_reasoning: bool) -> str:
        """An answer that is what was wanted, or calls if there are tools, behind what the model thinks."""
        lark = Lark(self._token_ids)
        answer = wanted.body(lark)
        if not self._tools:
            return lark.source(self._after_thoughts(lark, answer, "", starts_in_reasoning=starts_in_reasoning))
        calls, begun = self._calls(lark)
        answer = lark.any_of([answer, calls])
        return lark.source(self._after_thoughts(lark, answer, begun, starts_in_reasoning=starts_in_reasoning))

    def text_and_calls(self, *, starts_in_reasoning: bool) -> str:
        """Any answer, in which calls are as they should be."""
        lark = Lark(self._token_ids)
        section = lark.rule(self._section(lark, is_triggered=bool(self._triggers)))
        go_on = f"({self._text_and_trigger(lark)} {section})* {lark.text(marks=self._format.begins)}"
        begun = lark.rule(f"{section} {go_on if self._parallel else NOTHING}")
        answers = [lark.text(besides=self._format.bare, marks=self._format.begins)]
        if self._triggers:
            answers.append(f"{self._text_and_trigger(lark, besides=self._format.bare)} {begun}")
        if self._format.bare:
            answers.append(f"WS? {self._section(lark, is_triggered=False)}")
        answer = lark.any_of(answers)
        return lark.source(self._after_thoughts(lark, answer, begun, starts_in_reasoning=starts_in_reasoning))

    def _calls(self, lark: Lark) -> tuple[str, str]:
        """An answer of calls, and what follows what it begins with."""
        triggers = () if self._format.bare else self._triggers  # without any, they begin with themselves
        begin = lark.any_of([lark.literal(trigger) for trigger in triggers]) if triggers else ""
        begun = lark.rule(self._section(lark, is_triggered=bool(triggers)))
        if self._parallel and begin and not _holds_several(self._shape):
            begun = lark.rule(f"{begun} (WS? {begin} {begun})*")
        return lark.rule(f"{begin} {begun}"), begun

    @property
    def _triggers(self) -> tuple[str, ...]:
        return binding_triggers(self._format)

    def _after_thoughts(self, lark: Lark, answer: str, begun: str, *, starts_in_reasoning: bool) -> str:
        """The answer, behind the reasoning that it may have. `begun`: what follows a trigger that may end it."""
        if self._format.reasoning is None:
            return answer
        begin, end = self._format.reasoning
        closes = self._format.closes_reasoning and bool(begun)
        not_yet = self._format.begins if closes else ()
        thoughts = [f"{lark.text_until(end, marks=not_yet)} WS? {answer}"]
        if closes and self._triggers:
            thoughts.append(f"{self._text_and_trigger(lark)} {begun}")
        thought = lark.any_of(thoughts)
        return thought if starts_in_reasoning else f"{answer} | {lark.literal(begin)} {thought}"

    def _text_and_trigger(self, lark: Lark, *, besides: str = "") -> str:
        marks = self._format.begins
        return lark.any_of([lark.text_until(trigger, marks=marks, besides=besides) for trigger in self._triggers])

    def _section(self, lark: Lark, *, is_triggered: bool) -> str:
        """All that follows a trigger, or all of an answer."""
        return _section(self._shape, lark, self._tools, self._parallel, is_triggered=is_triggered)


def binding_triggers(format: Format) -> tuple[str, ...]:  # noqa: A002
    """The triggers after which the grammar of a call binds: not those that stand within what another one begins."""
    begin = format.shape.begin if isinstance(format.shape, Named) else ""
    return tuple(trigger for trigger in format.triggers if trigger != begin)


def _holds_several(shape: Shape) -> bool:
    """Whether one trigger begins all calls of an answer."""
    return isinstance(shape, EnvelopedList | BareEnvelopes | Pythonic) or (
        isinstance(shape, Named) and bool(shape.section_ends)
    )


def _section(shape: Shape, lark: Lark, tools: Sequence[Tool], parallel: bool, *, is_triggered: bool) -> str:
    match shape:
        case Enveloped():
            return f"WS? {_envelopes(shape.arguments_key, lark, tools)} WS? {lark.literal(shape.end)}"
        case EnvelopedList():
            calls = _several(_envelopes(shape.arguments_key, lark, tools), ",", parallel)
            end = f" (WS? {lark.literal(shape.end)})?" if shape.end else ""
            return f'WS? "[" WS? {calls} WS? "]"{end}'
        case BareEnvelopes():
            return _several(_envelopes(shape.arguments_key, lark, tools), ";", parallel)
        case Named():
            return _named(shape, lark, tools, parallel)
        case Tagged():
            return _tagged(shape, lark, tools, parallel)
        case Noted():
            any_call = lark.any_of([_noted_call(lark, tool) for tool in tools])
            return f"{any_call} {lark.literal(shape.end)}"
        case Pythonic():
            calls = _several(lark.any_of([_python_call(lark, tool) for tool in tools]), ",", parallel)
            end = f" {lark.literal(shape.end)}" if shape.end and is_triggered else ""
            return f'"[" {calls} "]"{end}'
    raise TypeError(f"no grammar for calls of this shape: {type(shape).__name__}")


def _several(call: str, separator: str, parallel: bool) -> str:
    between = f" {json.dumps(separator)} WS?" if separator else ""
    return f"{call} (WS?{between} {call})*" if parallel else call


def _envelopes(arguments_key: str, lark: Lark, tools: Sequence[Tool]) -> str:
    """{"name": "f", "arguments": {...}} of any of the tools."""

    def envelope(tool: Tool) -> str:
        name, key = (lark.spelt(json.dumps(text)) for text in (tool.name, arguments_key))
        arguments = lark.schema(arguments_schema(tool.parameters))
        name_key = lark.spelt('"name"')
        return f'"{{" WS? {name_key} WS? ":" WS? {name} WS? "," WS? {key} WS? ":" WS? {arguments} WS? "}}"'

    return lark.any_of([envelope(tool) for tool in tools])


def _named(shape: Named, lark: Lark, tools: Sequence[Tool], parallel: bool) -> str:
    def call(tool: Tool) -> str:
        before, _, after = shape.head.partition("{name}")
        counted = after.split("{index}")
        pieces = [lark.literal(before), lark.spelt(tool.name), lark.literal(counted[0])]
        pieces += ["/[0-9]{1,3}/ " + lark.literal(rest) for rest in counted[1:]]
        # Some models leave it out, and the parser can do without.
        pieces += [f"({lark.literal(shape.separators[0])})?"] if shape.separators else []
        opening, closing = shape.fences or ("", "")
        pieces += [lark.literal(opening), "WS?"] if opening else []
        pieces.append(lark.schema(arguments_schema(tool.parameters)))
        pieces += ["WS?", lark.literal(closing)] if closing else []
        return " ".join(piece for piece in pieces if piece)

    bodies = [call(tool) for tool in tools]
    any_call = " ".join(
        part for part in (lark.literal(shape.begin), lark.any_of(bodies), lark.literal(shape.end)) if part
    )
    if not shape.section_ends:
        return any_call
    end = lark.any_of([lark.literal(one) for one in shape.section_ends])
    return f"WS? {_several(lark.rule(any_call), '', parallel)} WS? {end}"


def _tagged(shape: Tagged, lark: Lark, tools: Sequence[Tool], parallel: bool) -> str:
    def call(tool: Tool) -> str:
        pieces = [lark.literal(shape.begin), lark.spelt(tool.name), lark.literal(shape.name_end), "WS?"]
        names = []
        for name, schema, is_required in properties_of(tool.parameters):
            if shape.tags.key_end in name or name != name.strip():
                raise _cannot_say(name)
            pair = lark.rule(f"{_tagged_value(shape, lark, lark.spelt(name), schema)} WS?")
            pieces.append(pair if is_required else f"{pair}?")
            names.append(name)
        others = others_of(tool.parameters)
        if others is not None:
            key = lark.word(_ANY_KEY, besides=names)
            pieces.append(f"({_tagged_other(shape, lark, key, others)} WS?)*")
        return " ".join((*pieces, lark.literal(shape.tags.end)))

    any_call = lark.any_of([call(tool) for tool in tools])
    if not shape.section_end:
        return f"WS? {any_call}"
    return f"WS? {_several(any_call, '', parallel)} WS? {lark.literal(shape.section_end)}"


def _tagged_value(shape: Tagged, lark: Lark, key: str, schema: Schema) -> str:
    """A key, which is written already, with its value between their tags."""
    tags = shape.tags
    is_text = is_string_schema(schema, schema)
    begin = next(begin for begin, says in tags.value_begins.items() if says in (None, is_text))
    # Between a key and its value white space means nothing, unless nothing else stands between them.
    opening = [lark.literal(tags.key_begin), key, lark.literal(tags.key_end)]
    opening += ["WS?", lark.literal(begin)] if begin else []
    if is_text:
        value = lark.any_of([_tagged_text(shape, lark, one) for one in texts_of(schema, schema)])
    else:
        value = f"WS? {lark.schema(schema)} WS? {lark.literal(tags.value_end)}"
    return " ".join((*opening, value))


def _tagged_text(shape: Tagged, lark: Lark, schema: Schema) -> str:
    """A string up to the tag that ends it."""
    tags = shape.tags
    line = "\n" if tags.has_own_lines else ""
    end = line + tags.value_end
    words = words_of(schema)
    if words is not None:
        return " | ".join(lark.spelt(line + word) + " " + lark.literal(end) for word in words)
    text = lark.text_until(end, marks=(tags.value_end,), length=length_of(schema), pattern=pattern_of(schema))
    return f"{lark.literal(line)} {text}" if line else text


def _tagged_other(shape: Tagged, lark: Lark, key: str, schema: Schema) -> str:
    """A key that the tool's schema does not name; of a value of which it says nothing, the parser makes a string."""
    text = _tagged_value(shape, lark, key, schema or {"type": "string"})
    if schema or False not in shape.tags.value_begins.values():
        return text
    return lark.any_of([text, _tagged_value(shape, lark, key, schema)])


def _noted_call(lark: Lark, tool: Tool) -> str:
    return f"{lark.literal(f'call:{tool.name}')} {GemmaGrammar(lark, arguments_schema(tool.parameters)).arguments()}"


def _python_call(lark: Lark, tool: Tool) -> str:
    """f(a=1, b="x"), arguments in the order of the schema."""
    keys, names = [], []
    for name, schema, is_required in properties_of(tool.parameters):
        if re.fullmatch(_PYTHON_NAME, name) is None:
            raise _cannot_say(name)
        keys.append((lark.rule(f"{lark.spelt(f'{name}=')} {_python_value(lark, schema)}"), is_required))
        names.append(name)
    others = others_of(tool.parameters)
    if others is not None:
        key = lark.rule(f'{lark.word(_PYTHON_NAME, besides=names)} "=" {_python_value(lark, others)}')
        keys.append((lark.rule(f'{key} ("," WS? {key})*'), False))
    return f'{lark.spelt(tool.name + "(")} {lark.listed(keys)} ")"'


def _cannot_say(name: str) -> RequestError:
    return RequestError(f"an argument has a name that calls of this model cannot say: {name[:64]}", param="tools")


def _python_value(lark: Lark, schema: Schema) -> str:
    """JSON's literals are Python's but for three words: both are read, but within lists and objects only JSON's."""
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, Sequence) else []
    if kinds == ["boolean"]:
        return '("True" | "False" | "true" | "false")'
    words = [word for kind, word in _PYTHON_WORDS if kind in kinds or not schema]
    return f"({' | '.join((lark.schema(schema), *words))})"
