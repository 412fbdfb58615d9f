"""What a request wants its text to be: OpenAI's `response_format`, and the fields that vLLM's clients send. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dayzero.errors import RequestError
from dayzero.gateway.config import Limits
from dayzero.gateway.errors import UnsupportedParameter
from dayzero.gateway.fields import GenerationFields
from dayzero.gateway.json_changes import JsonOutput
from dayzero.grammar.wanted import (
    ANY_OBJECT,
    ChoiceWanted,
    GrammarWanted,
    JsonWanted,
    RegexWanted,
    Wanted,
    check_choice,
    check_regex,
    check_schema,
)

_GUIDED = {"guided_json": "json", "guided_regex": "regex", "guided_choice": "choice", "guided_grammar": "grammar"}
_KINDS = ("json", "regex", "choice", "grammar", "json_object")
# Other keys of `structured_outputs`: the values that ask for nothing.
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "structural_tag": (),
    "disable_fallback": (True, False),
    "disable_any_whitespace": (False,),
    "disable_additional_properties": (False,),
    "whitespace_pattern": (),
}


class JsonSchemaFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`response_format.json_schema`; `strict` makes no difference: what a schema says is enforced."""

    name: str | None = None
    description: str | None = None
    schema: Any = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`response_format`. `schema`: llama.cpp's, beside the type json_object."""

    type: str | None = None
    json_schema: JsonSchemaFormat | None = None
    schema: Any = None


FORMAT_SHAPES: Mapping[str, Any] = {"response_format": ResponseFormat}


@dataclass(frozen=True, slots=True)
class Structured:
    """What the text of an answer shall be, and the field that says so.

    A grammar's notation is not known yet: see `constrain.Constrainer`.
    """

    wanted: Wanted
    param: str

    @property
    def is_json(self) -> bool:
        return isinstance(self.wanted, JsonWanted)


def structured_of(fields: GenerationFields, limits: Limits) -> Structured | None:
    """None: any text. Raises RequestError, naming the field."""
    found = [
        one
        for one in (
            _of_response_format(fields.response_format, limits),
            _of_structured_outputs(fields.structured_outputs, limits),
            *(_of_guided(fields, name, limits) for name in _GUIDED),
        )
        if one is not None
    ]
    if len(found) > 1:
        raise RequestError(
            f"{found[0].param} beside {found[1].param}", param=found[1].param, hint="say once what the output shall be"
        )
    return found[0] if found else None


def json_of(schema: object, limits: Limits, param: str) -> Structured:
    """JSON that fits a schema, which may be the text of one. RequestError names `param`."""
    return Structured(_json(schema, limits, param), param)


def json_output(fields: GenerationFields, structured: Structured | None, *, calls: bool = False) -> JsonOutput:
    """What of the answers is JSON."""
    return JsonOutput(
        text=structured is not None and structured.is_json,
        has_schema=structured is not None and structured.wanted != ANY_OBJECT,
        calls=calls,
        can_be_cut=bool(fields.stop or fields.stop_token_ids),
    )


def _of_response_format(response_format: Mapping[str, Any] | None, limits: Limits) -> Structured | None:
    param = "response_format"
    match response_format:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object", "schema": schema} if schema is not None:
            return json_of(schema, limits, f"{param}.schema")
        case {"type": "json_object"}:
            return Structured(ANY_OBJECT, param)
        case {"type": "json_schema", "json_schema": {"schema": schema}} if schema is not None:
            return json_of(schema, limits, f"{param}.json_schema.schema")
        case {"type": "json_schema"}:
            hint = 'send {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}'
            raise RequestError("no schema", param=f"{param}.json_schema.schema", hint=hint)
        case {"type": "structural_tag"}:
            raise UnsupportedParameter(f"{param}.type", hint="send tools, or structured_outputs")
        case _:
            raise RequestError("unknown type", param=f"{param}.type", hint="known: text, json_object, json_schema")


def _of_structured_outputs(outputs: Mapping[str, Any] | None, limits: Limits) -> Structured | None:
    param = "structured_outputs"
    given = {key: value for key, value in (outputs or {}).items() if value is not None}
    for key, value in given.items():
        if key in _NEUTRAL and value not in _NEUTRAL[key]:
            raise UnsupportedParameter(f"{param}.{key}")
        if key not in _NEUTRAL and key not in _KINDS:
            raise RequestError(f"unknown key: {key[:64]}", param=param, hint=f"known: {', '.join(_KINDS)}")
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        if outputs is None:
            return None
        raise RequestError(f"{len(kinds)} kinds of output", param=param, hint=f"send one of {', '.join(_KINDS)}")
    if kinds == ["json_object"]:
        if given["json_object"] is not True:
            raise RequestError("not true", param=f"{param}.json_object")
        return Structured(ANY_OBJECT, param)
    return _structured(kinds[0], given[kinds[0]], limits, f"{param}.{kinds[0]}")


def _of_guided(fields: GenerationFields, name: str, limits: Limits) -> Structured | None:
    value = getattr(fields, name)
    return None if value is None else _structured(_GUIDED[name], value, limits, name)


def _structured(kind: str, value: object, limits: Limits, param: str) -> Structured:
    return Structured(_of_kind(kind, value, limits, param), param)


def _of_kind(kind: str, value: object, limits: Limits, param: str) -> Wanted:
    if kind == "json":
        return _json(value, limits, param)
    if kind == "choice":
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise RequestError("not a list of strings", param=param)
        check_choice(tuple(value), param)
        _check_size(sum(len(text.encode()) for text in value), limits, param)
        return ChoiceWanted(tuple(value))
    if not isinstance(value, str):
        raise RequestError("not a string", param=param)
    if kind == "regex":
        check_regex(value, param)
        return RegexWanted(value)
    if not value.strip():
        raise RequestError("an empty grammar", param=param, code="invalid_schema")
    _check_size(len(value.encode()), limits, param)
    return GrammarWanted(value)


def _json(schema: object, limits: Limits, param: str) -> JsonWanted:
    if isinstance(schema, str):
        _check_size(len(schema.encode()), limits, param)
        try:
            schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError):
            raise RequestError("not JSON", param=param, code="invalid_schema") from None
    if not isinstance(schema, dict):
        raise RequestError("not a schema", param=param, code="invalid_schema", hint="send a JSON Schema, an object")
    check_schema(schema, param)
    _check_size(len(msgspec.json.encode(schema)), limits, param)
    return JsonWanted(schema)


def _check_size(num_bytes: int, limits: Limits, param: str) -> None:
    if num_bytes > limits.schema_bytes:
        raise RequestError(
            f"schema or grammar too large: {num_bytes} bytes (limit: {limits.schema_bytes})",
            param=param,
            code="invalid_schema",
        )
