"""What a tool's schema says of its single arguments, where they are written apart from each other."""

import json
from collections.abc import Iterator, Mapping, Sequence

Schema = Mapping[str, object]

_ROOT = "#/$defs/root"


def arguments_schema(parameters: Schema) -> Schema:
    """The schema of all arguments: always of an object."""
    return parameters if "type" in parameters or "$ref" in parameters else {"type": "object", **parameters}


def properties_of(parameters: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Each property that the schema names: its name, its schema, which stands alone, and whether it is required."""
    properties = parameters.get("properties")
    required = parameters.get("required")
    if not isinstance(properties, Mapping):
        return
    for name, schema in properties.items():
        is_required = isinstance(required, Sequence) and name in required
        place = name.replace("~", "~0").replace("/", "~1")
        yield name, _alone(parameters, f"properties/{place}", schema), is_required


def others_of(parameters: Schema) -> Schema | None:
    """The schema of properties that a schema leaves open; None if it names its own, or allows none."""
    others = parameters.get("additionalProperties")
    if "properties" in parameters or others is False:
        return None
    return _alone(parameters, "additionalProperties", others) if isinstance(others, Mapping) else {}


def words_of(schema: Schema) -> list[str] | None:
    """The strings of which a value must be one; None if it may be others, or none."""
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if not isinstance(values, Sequence) or not all(isinstance(value, str) for value in values):
        return None
    return [str(value) for value in values]


def length_of(schema: Schema) -> tuple[int, int | None]:
    """How many characters a string has, at least and at most."""
    least, most = schema.get("minLength"), schema.get("maxLength")
    return least if isinstance(least, int) else 0, most if isinstance(most, int) else None


def pattern_of(schema: Schema) -> str:
    """What a string must match somewhere; "": anything."""
    pattern = schema.get("pattern")
    return pattern if isinstance(pattern, str) else ""


def _alone(parameters: Schema, place: str, schema: object) -> Schema:
    """The schema at this place, with all that it refers to."""
    if not isinstance(schema, Mapping):
        return {} if schema is not False else {"not": {}}
    if not _has_references(schema):
        return schema
    return {"$ref": f"{_ROOT}/{place}", "$defs": {"root": _moved(parameters)}}


def _has_references(schema: Schema) -> bool:
    return '"$ref"' in json.dumps(schema)


def _moved(value: object) -> object:
    """With its references as they are when it stands at `_ROOT`."""
    if isinstance(value, Mapping):
        return {
            key: _ROOT + child[1:]
            if key == "$ref" and isinstance(child, str) and child.startswith("#")
            else _moved(child)
            for key, child in value.items()
        }
    if isinstance(value, list):
        return [_moved(child) for child in value]
    return value
