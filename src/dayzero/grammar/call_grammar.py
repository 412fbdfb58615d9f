"""The grammar of calls, of the same record of which the parser is made.

What it accepts, the parser reads as calls of the tools that are offered, with arguments that fit their schemas. It does
not bind `pattern` and `format` of strings that stand between tags without quotes, nor keys that a schema does not name
there.
"""

import json
from collections.abc import Mapping, Sequence

from dayzero.grammar.format import Format, Shape
from dayzero.grammar.lark import Lark
from dayzero.grammar.shapes.enveloped import BareEnvelopes, Enveloped, EnvelopedList
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.shapes.named import Named
from dayzero.grammar.shapes.pythonic import Pythonic
from dayzero.grammar.shapes.tagged import Tagged
from dayzero.grammar.subschema import Schema, arguments_schema, length_of, properties_of, words_of
from dayzero.grammar.tagged_object import is_string_schema
from dayzero.grammar.tools import Tool

EMPTY = '""'


def call_grammar(
    format: Format,  # noqa: A002 - what it is called everywhere
    tools: Sequence[Tool],
    *,
    parallel: bool,
    after_trigger: bool,
    token_ids: Mapping[str, int],
) -> str | None:
    """llguidance's source for one call of the tools, or several; None for a format whose calls have no grammar here.

    after_trigger   the output already holds what `binding_triggers` names, and the grammar goes on from there;
                    otherwise it is all of the output
    token_ids       of the markers that are one token of the vocabulary
    """
    assert tools
    lark = Lark(token_ids)
    trigger = next(iter(binding_triggers(format)), "")
    section = _section(format.shape, lark, tools, parallel)
    if section is None:
        return None
    if not (after_trigger or format.bare):
        section = " ".join(part for part in (lark.literal(trigger), section) if part)
        section = section if _holds_several(format.shape) else _several(lark.rule(section), "", parallel)
    return lark.source(section)


def binding_triggers(format: Format) -> tuple[str, ...]:  # noqa: A002
    """The triggers after which the grammar of a call binds: not those that stand within what another one begins."""
    begin = format.shape.begin if isinstance(format.shape, Named) else ""
    return tuple(trigger for trigger in format.triggers if trigger != begin)


def _holds_several(shape: Shape | Messages) -> bool:
    """Whether one trigger begins all calls of an answer."""
    return isinstance(shape, EnvelopedList | BareEnvelopes | Pythonic) or (
        isinstance(shape, Named) and bool(shape.section_end)
    )


def _section(shape: Shape | Messages, lark: Lark, tools: Sequence[Tool], parallel: bool) -> str | None:
    """All that follows a trigger."""
    match shape:
        case Enveloped():
            return f"WS? {_envelopes(shape.arguments_key, lark, tools)} WS? {lark.literal(shape.end)}"
        case EnvelopedList():
            calls = _several(_envelopes(shape.arguments_key, lark, tools), ",", parallel)
            end = f" WS? {lark.literal(shape.end)}" if shape.end else ""
            return f'WS? "[" WS? {calls} WS? "]"{end}'
        case BareEnvelopes():
            return _several(_envelopes(shape.arguments_key, lark, tools), ";", parallel)
        case Named():
            return _named(shape, lark, tools, parallel)
        case Tagged():
            return _tagged(shape, lark, tools, parallel)
        case Pythonic():
            calls = _several(lark.any_of([_python_call(lark, tool) for tool in tools]), ",", parallel)
            return f'"[" {calls} "]"'
    return None


def _several(call: str, separator: str, parallel: bool) -> str:
    between = f" {json.dumps(separator)} WS?" if separator else ""
    return f"{call} (WS?{between} {call})*" if parallel else call


def _envelopes(arguments_key: str, lark: Lark, tools: Sequence[Tool]) -> str:
    """{"name": "f", "arguments": {...}} of any of the tools."""

    def envelope(tool: Tool) -> str:
        name, key = (lark.literal(json.dumps(text, ensure_ascii=False)) for text in (tool.name, arguments_key))
        arguments = lark.schema(arguments_schema(tool.parameters))
        name_key = lark.literal('"name"')
        return f'"{{" WS? {name_key} WS? ":" WS? {name} WS? "," WS? {key} WS? ":" WS? {arguments} WS? "}}"'

    return lark.any_of([envelope(tool) for tool in tools])


def _named(shape: Named, lark: Lark, tools: Sequence[Tool], parallel: bool) -> str:
    def call(tool: Tool) -> str:
        before, _, after = shape.head.partition("{name}")
        counted = after.split("{index}")
        pieces = [lark.literal(before + tool.name + counted[0])]
        pieces += ["/[0-9]{1,3}/ " + lark.literal(rest) for rest in counted[1:]]
        pieces += [lark.literal(shape.separators[0])] if shape.separators else []
        opening, closing = shape.fences or ("", "")
        pieces += [lark.literal(opening), "WS?"] if opening else []
        pieces.append(lark.schema(arguments_schema(tool.parameters)))
        pieces += ["WS?", lark.literal(closing)] if closing else []
        return " ".join(piece for piece in pieces if piece)

    bodies = [call(tool) for tool in tools]
    any_call = " ".join(
        part for part in (lark.literal(shape.begin), lark.any_of(bodies), lark.literal(shape.end)) if part
    )
    if not shape.section_end:
        return any_call
    return f"WS? {_several(lark.rule(any_call), '', parallel)} WS? {lark.literal(shape.section_end)}"


def _tagged(shape: Tagged, lark: Lark, tools: Sequence[Tool], parallel: bool) -> str:
    def call(tool: Tool) -> str:
        pieces = [lark.literal(shape.begin + tool.name + shape.name_end), "WS?"]
        for name, schema, is_required in properties_of(tool.parameters):
            pair = lark.rule(f"{_tagged_value(shape, lark, name, schema)} WS?")
            pieces.append(pair if is_required else f"{pair}?")
        return " ".join((*pieces, lark.literal(shape.tags.end)))

    any_call = lark.any_of([call(tool) for tool in tools])
    if not shape.section_end:
        return f"WS? {any_call}"
    return f"WS? {_several(any_call, '', parallel)} WS? {lark.literal(shape.section_end)}"


def _tagged_value(shape: Tagged, lark: Lark, name: str, schema: Schema) -> str:
    """A key with its value between their tags."""
    tags = shape.tags
    is_text = is_string_schema(schema)
    begin = next(begin for begin, says in tags.value_begins.items() if says in (None, is_text))
    line = "\n" if tags.has_own_lines else ""
    key = tags.key_begin + name + tags.key_end
    # Between a key and its value white space means nothing, unless nothing else stands between them.
    opening = f"{lark.literal(key)} WS? {lark.literal(begin)}" if begin else lark.literal(key)
    end = line + tags.value_end
    words = words_of(schema)
    if words is not None:
        value = f"({' | '.join(lark.literal(line + word + end) for word in words)})"
    elif is_text:
        text = lark.text_until(end, length=length_of(schema))
        value = f"{lark.literal(line)} {text}" if line else text
    else:
        value = f"WS? {lark.schema(schema)} WS? {lark.literal(tags.value_end)}"
    return f"{opening} {value}"


def _python_call(lark: Lark, tool: Tool) -> str:
    """f(a=1, b="x"), arguments in the order of the schema."""
    keys = [
        (lark.rule(f"{lark.literal(name + '=')} {_python_value(lark, schema)}"), is_required)
        for name, schema, is_required in properties_of(tool.parameters)
    ]
    return f'{lark.literal(tool.name + "(")} {_listed(lark, keys)} ")"'


def _listed(lark: Lark, keys: Sequence[tuple[str, bool]]) -> str:
    """The keys in their order, of which some may be missing, with commas between them."""
    later, rest = "", ""  # what may follow a key; and the same where no key came before
    for key, is_required in reversed(keys):
        follows = f'"," WS? {key}{" " + later if later else ""}'
        first = f"{key}{' ' + later if later else ''}"
        if is_required:
            later, rest = lark.rule(follows), lark.rule(first)
        else:
            rest = lark.rule(f"{first} | {rest or EMPTY}")
            later = lark.rule(f"{follows} | {later or EMPTY}")
    return rest or EMPTY


def _python_value(lark: Lark, schema: Schema) -> str:
    """JSON's literals are Python's but for three words: both are read, but within lists and objects only JSON's."""
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, Sequence) else []
    if kinds == ["boolean"]:
        return '("True" | "False" | "true" | "false")'
    words = [word for kind, word in (("boolean", '"True" | "False"'), ("null", '"None"')) if kind in kinds]
    return f"({' | '.join((lark.schema(schema), *words))})"
