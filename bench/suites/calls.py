"""The tools and possible answers of the Berkeley function calling leaderboard as JSON Schemas and JSON arguments.

The leaderboard writes types as Python does, and an answer as a list of what each argument may be, where "" and null
stand for leaving it out; so does every value inside a dictionary.
"""

from collections.abc import Iterator, Mapping, Sequence

from bench.suites.cases import Json

# How the leaderboard itself turns its types into JSON Schema's for models that take OpenAI's tools.
_TYPES = {
    "any": "string",
    "bool": "boolean",
    "dict": "object",
    "double": "number",
    "float": "number",
    "list": "array",
    "tuple": "array",
}
OMITTED: tuple[Json, ...] = ("", None)


def parameters(tool: Mapping[str, Json]) -> Json:
    """The schema of a tool's arguments. Only its own properties are arguments."""
    schema = _schema(tool["parameters"])
    return {**schema, "additionalProperties": False}


def _schema(written: Json) -> Json:
    """One schema with JSON Schema's types; what says nothing about values, such as `optional`, is left out."""
    kind = written.get("type", "string")
    kept = {name: written[name] for name in ("description", "enum", "minItems", "maxItems") if name in written}
    schema: Json = {"type": _TYPES.get(kind, kind), **kept}
    if "properties" in written:
        schema["properties"] = {name: _schema(inner) for name, inner in written["properties"].items()}
        schema["required"] = [name for name in written.get("required", ()) if name in written["properties"]]
    if "items" in written:
        schema["items"] = _schema(written["items"])
    return schema


def arguments(answer: Mapping[str, Sequence[Json]]) -> Iterator[Json]:
    """Arguments that answer a question: the first choice of each, the second of each, and so on."""
    given = {name: choices for name, choices in answer.items() if choices}
    for turn in range(max(map(len, given.values()), default=1)):
        chosen = {name: choices[min(turn, len(choices) - 1)] for name, choices in given.items()}
        yield {name: _value(value) for name, value in chosen.items() if value not in OMITTED}


def _value(choice: Json) -> Json:
    """A choice as a value: dictionaries hold lists of choices of their own."""
    if isinstance(choice, dict):
        first = {name: inner[0] if isinstance(inner, list) and inner else inner for name, inner in choice.items()}
        return {name: _value(value) for name, value in first.items() if value not in OMITTED}
    if isinstance(choice, list):
        return [_value(inner) for inner in choice]
    return choice
