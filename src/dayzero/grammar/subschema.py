"""What a tool's schema says of its single arguments, where they are written apart from each other."""

import json
from collections.abc import Iterator, Mapping, Sequence

from dayzero.errors import RequestError

Schema = Mapping[str, object]

# Keywords that nothing but a JSON Schema as a whole can be bound to.
UNBOUND = frozenset(
    {
        *("not", "if", "then", "else", "$dynamicRef", "$recursiveRef"),
        *("contains", "minContains", "maxContains", "prefixItems", "additionalItems", "unevaluatedItems"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
    }
)
_CONSTRAINS = UNBOUND | {
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "items", "minItems", "maxItems", "uniqueItems"),
    *("properties", "required", "additionalProperties", "minLength", "maxLength", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
WIDER = {"integer": "number"}  # a type, and the one that holds all of its values
_ROOT = "#/$defs/root"


class NothingFits(RequestError):
    """A schema that no value fits."""

    def __init__(self) -> None:
        super().__init__("a tool's schema that nothing fits", param="tools")


def cannot_bind(keyword: str) -> RequestError:
    return RequestError(f"a tool's schema has what calls of this model cannot be bound to: {keyword}", param="tools")


def arguments_schema(parameters: Schema) -> Schema:
    """The schema of all arguments: always of an object."""
    return parameters if "type" in parameters or "$ref" in parameters else {"type": "object", **parameters}


def properties_of(parameters: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Each property that the schema names: its name, its schema, which stands alone, and whether it is required.

    Raises RequestError, naming the keyword, if the schema says more of arguments than that.
    """
    described, place = _described(parameters)
    for keyword in sorted((UNBOUND | {"anyOf", "oneOf", "allOf", "enum", "const"}) & described.keys()):
        raise cannot_bind(keyword)
    properties, required = named_in(described)
    for name, schema in properties.items():
        escaped = name.replace("~", "~0").replace("/", "~1")
        alone = _alone(parameters, f"{place}properties/{escaped}", schema)
        if schema is False or values_of(alone) == []:
            if name in required:
                raise NothingFits
            continue
        yield name, alone, name in required


def others_of(parameters: Schema) -> Schema | None:
    """The schema of properties that a schema does not name. None if there are none: where it names some, it must say
    that there are others."""
    described, place = _described(parameters)
    others = described.get("additionalProperties", "properties" not in described)
    if others is False:
        return None
    return _alone(parameters, f"{place}additionalProperties", others) if isinstance(others, Mapping) else {}


def named_in(schema: Schema) -> tuple[Mapping[str, object], frozenset[str]]:
    """The properties of an object's schema, and which of them it requires."""
    properties, required = schema.get("properties"), schema.get("required")
    properties = properties if isinstance(properties, Mapping) else {}
    required = frozenset(required) if isinstance(required, Sequence) else frozenset()
    if not required <= properties.keys():
        raise RequestError("a tool's schema requires what it does not describe", param="tools")
    return properties, required


def referred(root: Schema, reference: object) -> object:
    """What stands where a reference points, within the schema. Raises RequestError if that is nothing."""
    found: object = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise RequestError(f"not within the schema: {str(reference)[:64]}", param="tools")
    for place in reference[1:].split("/")[1:]:
        key = place.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            raise RequestError(f"not within the schema: {reference[:64]}", param="tools")
        found = found[key]
    return found


def followed(root: Schema, schema: object, seen: set[str], *, binds: bool = False) -> Schema | None:
    """What a reference comes to in the end, and any other schema itself.

    None for one that says nothing, and for a reference in `seen`, to which those on the way are added: schemas refer to
    each other in circles. Raises RequestError for a reference that leads nowhere and, where what is found `binds`, for
    one that has beside it what constrains too.
    """
    while isinstance(schema, Mapping) and "$ref" in schema:
        if binds:
            _check_alone(schema)
        reference = schema["$ref"]
        target = referred(root, reference)
        if str(reference) in seen:
            return None
        seen.add(str(reference))
        schema = target
    return schema if isinstance(schema, Mapping) else None


def texts_of(root: Schema, schema: object) -> list[Schema]:
    """The schemas of the strings that fit a schema, one for each of its alternatives."""
    found: list[Schema] = []
    seen: set[str] = set()
    waiting = [schema]
    while waiting:
        one = followed(root, waiting.pop(0), seen, binds=True)
        if one is None:
            continue
        keyword = next((name for name in ("anyOf", "oneOf", "allOf") if listed(one.get(name))), "")
        alternatives = listed(one.get(keyword))
        if keyword == "allOf" and len(alternatives) > 1:
            raise cannot_bind("allOf")
        if keyword:
            rest = {key: value for key, value in one.items() if key != keyword}
            given = [followed(root, alternative, seen, binds=True) for alternative in alternatives]
            waiting += [{**rest, **alternative} for alternative in given if alternative is not None]
        elif one.get("type", "string") == "string" or "string" in listed(one.get("type")):
            found.append(one)
    return found


def values_of(schema: Schema) -> list[object] | None:
    """The values of which one must be it, those that are of the schema's type; None if it may be others."""
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if not isinstance(values, Sequence):
        return None
    kinds = schema.get("type")
    if kinds is None:
        return list(values)
    allowed = {WIDER.get(str(kind), str(kind)) for kind in ([kinds] if isinstance(kinds, str) else listed(kinds))}
    return [value for value in values if _kind_of(value) in allowed]


def words_of(schema: Schema) -> list[str] | None:
    """The strings of which one must be one; None if it may be others."""
    values = values_of(schema)
    if values is None:
        return None
    words = [value for value in values if isinstance(value, str)]
    if not words:
        raise NothingFits
    return words


def length_of(schema: Schema) -> tuple[int, int | None]:
    """How many characters a string has, at least and at most."""
    least, most = schema.get("minLength"), schema.get("maxLength")
    return least if isinstance(least, int) else 0, most if isinstance(most, int) else None


def pattern_of(schema: Schema) -> str:
    """What a string must match somewhere; "": anything."""
    pattern = schema.get("pattern")
    return pattern if isinstance(pattern, str) else ""


def _described(parameters: Schema) -> tuple[Schema, str]:
    """The schema that describes the arguments, and where in `parameters` it stands."""
    if "$ref" not in parameters:
        return parameters, ""
    _check_alone(parameters)
    target = referred(parameters, parameters["$ref"])
    if not isinstance(target, Mapping) or "$ref" in target:
        raise cannot_bind("$ref")
    return target, f"{str(parameters['$ref']).removeprefix('#').removeprefix('/')}/"


def _alone(parameters: Schema, place: str, schema: object) -> Schema:
    """The schema at this place, with all that it refers to."""
    if not isinstance(schema, Mapping):
        return {}
    schema = followed(parameters, schema, set(), binds=True)
    if schema is None:
        raise cannot_bind("$ref")
    if not _has_references(schema):
        return schema
    return {"$ref": f"{_ROOT}/{place}", "$defs": {"root": _moved(parameters)}}


def _check_alone(reference: Schema) -> None:
    if _CONSTRAINS & reference.keys():
        raise cannot_bind("$ref beside others")


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
    return "object"


def listed(value: object) -> Sequence[object]:
    """The parts of a keyword's value; none, where it is no list."""
    return value if isinstance(value, list) else ()


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
