"""The Jinja environment of chat templates, which come with a checkpoint and are code that nobody has read.

No loaders, no access to Python's internals, no changes to what it is given. Sizes are bounded where an expression
states them (`'a' * 10**9`); what a template may use in all, time and memory, is bounded by the process that renders
for a server (`text.confined`). Names and filters are those that the transformers library gives to templates.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEXT_CHARS = 8_000_000
_MAX_INT_BITS = 256


class Raised(TemplateError):
    """The template itself refused the conversation, with `raise_exception`."""


class _Generation(Extension):
    """`{% generation %}` marks what a trainer may learn from; rendering does not care."""

    tags = {"generation"}  # noqa: RUF012 - the library declares it as an instance variable

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Refuses products and sums that are larger than any prompt."""

    intercepted_binops = frozenset({"*", "**", "+"})

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda pattern: now().strftime(pattern)
        del self.globals["lipsum"]

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if _result_size(operator, left, right) > MAX_TEXT_CHARS:
            raise SecurityError(f"result of {operator} is too large")
        return super().call_binop(context, operator, left, right)


def _result_size(operator: str, left: object, right: object) -> int:
    """Items that the result would have; numbers count as nothing or as too much."""
    if isinstance(left, int) and isinstance(right, int):
        factor = abs(right) if operator == "**" else 1
        bits = left.bit_length() * factor + (right.bit_length() if operator == "*" else 0)
        return 0 if bits <= _MAX_INT_BITS else MAX_TEXT_CHARS + 1
    if operator == "*":
        return max(_length(left) * _count(right), _length(right) * _count(left))
    return _length(left) + _length(right)


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _count(value: object) -> int:
    return max(value, 0) if isinstance(value, int) else 0


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes for HTML, which no model was trained on."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> None:
    raise Raised(str(message))
