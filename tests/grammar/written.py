"""Calls as a format's model writes them: what the parser reads, and its grammar accepts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dayzero.grammar.format import Format
from dayzero.grammar.gemma_grammar import noted
from dayzero.grammar.shapes.enveloped import BareEnvelopes, Enveloped, EnvelopedList
from dayzero.grammar.shapes.gemma import Noted
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.shapes.named import Named
from dayzero.grammar.shapes.pythonic import Pythonic
from dayzero.grammar.shapes.tagged import Tagged


@dataclass(frozen=True, slots=True)
class Call:
    """A call by its arguments' values."""

    name: str
    arguments: Mapping[str, object]


def written(format: Format, calls: Sequence[Call], *, triggered: bool = False) -> str:  # noqa: A002 - its name
    """The calls of one answer. Raises NotImplementedError for a shape that is not written here.

    triggered   with what begins calls among text, also where they begin with themselves otherwise
    """
    trigger = "" if format.bare and not triggered else next(iter(format.triggers), "")
    match format.shape:
        case Enveloped(end=end, arguments_key=key):
            return "\n".join(f"{trigger}\n{_envelope(call, key)}\n{end}" for call in calls)
        case EnvelopedList(end=end, arguments_key=key):
            return f"{trigger}[{', '.join(_envelope(call, key) for call in calls)}]{end}"
        case BareEnvelopes(arguments_key=key):
            return trigger + "; ".join(_envelope(call, key) for call in calls)
        case Named(section_ends=section_ends) as named:
            bodies = [_named(named, call, index) for index, call in enumerate(calls)]
            if section_ends:
                return f"{trigger}{''.join(bodies)}{section_ends[0]}"
            return "".join(trigger + body for body in bodies)
        case Tagged(section_end=section_end) as tagged:
            end = f"\n{section_end}" if section_end else ""
            begin = f"{trigger}\n" if section_end else trigger
            return "\n".join(f"{begin}{_tagged(tagged, call)}{end}" for call in calls)
        case Noted(end=end):
            return "".join(f"{trigger}call:{call.name}{noted(call.arguments)}{end}" for call in calls)
        case Messages(start=start, call_end=end) as messages:
            return f"{start}assistant".join(f"{_message(messages, call)}{end}" for call in calls)
        case Pythonic(end=end):
            return f"{trigger}[{', '.join(_pythonic(call) for call in calls)}]{end if trigger else ''}"
    raise NotImplementedError(f"calls of {format.name}")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _envelope(call: Call, arguments_key: str) -> str:
    return f'{{"name": {_json(call.name)}, "{arguments_key}": {_json(call.arguments)}}}'


def _named(shape: Named, call: Call, index: int) -> str:
    head = shape.head.replace("{name}", call.name).replace("{index}", str(index))
    separator = shape.separators[0] if shape.separators else ""
    opening, closing = (f"{shape.fences[0]}\n", f"\n{shape.fences[1]}") if shape.fences else ("", "")
    return f"{shape.begin}{head}{separator}{opening}{_json(call.arguments)}{closing}{shape.end}"


def _message(shape: Messages, call: Call) -> str:
    header = f"{shape.channel}commentary to=functions.{call.name} {shape.constrain}json{shape.message}"
    return header + _json(call.arguments)


def _tagged(shape: Tagged, call: Call) -> str:
    tags = shape.tags
    line = "\n" if tags.has_own_lines else ""
    pairs = []
    for key, value in call.arguments.items():
        is_text = isinstance(value, str)
        begin = next(begin for begin, says in tags.value_begins.items() if says in (None, is_text))
        gap = " " if begin and not tags.key_end.endswith(">") else ""
        shown = value if is_text else _json(value)
        pairs.append(f"{tags.key_begin}{key}{tags.key_end}{gap}{begin}{line}{shown}{line}{tags.value_end}\n")
    return f"{shape.begin}{call.name}{shape.name_end}\n{''.join(pairs)}{tags.end}"


def _pythonic(call: Call) -> str:
    return f"{call.name}({', '.join(f'{key}={_python(value)}' for key, value in call.arguments.items())})"


def _python(value: object) -> str:
    """As JSON writes it, which the format's readers take for Python's within lists and objects too."""
    return repr(value) if value is None or isinstance(value, bool) else _json(value)
