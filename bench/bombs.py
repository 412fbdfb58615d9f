"""Schemas, grammars and expressions that are small to send and meant to be dear: fields of a chat request, by name.

Most are of advisories on servers of this kind: CVE-2025-48942, CVE-2025-48943, CVE-2025-48944, CVE-2025-57809,
CVE-2026-55574, CVE-2026-105757.
"""

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]
DEEP, WIDE = 200, 10_000


def bombs() -> dict[str, Fields]:
    regexes = {f"regex {text}": text for text in ("(a+)+b", "(a|a)*b", "(x{1,1000}){1,1000}", ".{0,50000}")}
    cross = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    bounded = {"type": "array", "items": {"type": "string", "maxLength": 9_000}, "maxItems": 9_000}
    return {
        **{name: {"structured_outputs": {"regex": text}} for name, text in regexes.items()},
        "regex with NUL": {"structured_outputs": {"regex": "a\0b"}},
        "regex, empty": {"structured_outputs": {"regex": ""}},
        "choice, empty": {"structured_outputs": {"choice": []}},
        "json, empty": {"structured_outputs": {"json": ""}},
        "grammar, left recursion": {"structured_outputs": {"grammar": 'root ::= root "a" | "a"'}},
        "grammar, endless recursion": {"structured_outputs": {"grammar": "root ::= a\na ::= b\nb ::= a"}},
        "grammar, ambiguous": {"structured_outputs": {"grammar": 'root ::= a a a\na ::= ("x" | "xx" | a a)*'}},
        "enum of 10,000": schema({"enum": [f"value {number}" * 4 for number in range(WIDE)]}),
        "200 levels": schema(nested(DEEP)),
        "references in a circle": schema(cross),
        "bounds of 9,000 in 9,000": schema(bounded),
        "10,000 properties": schema(
            {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(WIDE)}}
        ),
        "multiples of three numbers": multiples(2),
        "tool with a type that is a number": tool({"type": 5}),
        "tool with a pattern that is a number": tool(
            {"type": "object", "properties": {"a": {"type": "string", "pattern": 5}}}
        ),
    }


def schema(body: object) -> Fields:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "bomb", "schema": body, "strict": True}}}


def unlike(number: int) -> Fields:
    """One of as many schemas as there are numbers."""
    return schema({"type": "object", "properties": {f"p{number}": {"type": "integer"}}, "required": [f"p{number}"]})


def multiples(number: int) -> Fields:
    """One of as many schemas as there are numbers, most of which no compiler gets done with in time."""
    return schema({"allOf": [{"multipleOf": 9_983 + 2 * (number + other)} for other in range(3)]})


def nested(levels: int) -> object:
    body: object = {"type": "string"}
    for _ in range(levels):
        body = {"type": "object", "properties": {"a": body}, "required": ["a"]}
    return body


def tool(parameters: object) -> Fields:
    function = {"name": "f", "parameters": parameters, "strict": True}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
