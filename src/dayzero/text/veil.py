"""Client text under a veil, so that what the template wrote can be told from what a client wrote.

Each character that occurs in any markup token is swapped for a private one, by position in an alphabet; blanks,
quotes and everything else stay. A veiled string has the same length, trims and splits alike, encodes to JSON alike,
and no part of it can belong to a markup token, not even together with its neighbours.
"""

from collections.abc import Iterable

import msgspec

from dayzero.text.conversation import Conversation

_FIRST = 0x100000  # start of the last private-use plane, which no font or script uses
_REPLACEMENT = 0xFFFD

_SCHEMA_WORDS = frozenset(
    """
    $defs $id $ref $schema additionalProperties allOf anyOf const default definitions description enum examples
    exclusiveMaximum exclusiveMinimum format items maxItems maxLength maxProperties maximum minItems minLength
    minProperties minimum multipleOf not nullable oneOf pattern patternProperties prefixItems properties required
    title type uniqueItems
    """.split()  # noqa: SIM905 - a list literal takes a line for each word
)
_SCHEMA_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def alphabet_of(markup: Iterable[str]) -> str:
    """The characters that a veil must cover."""
    return "".join(sorted({c for text in markup for c in text if not c.isspace()}))


class Veil:
    """Covers client text and lifts it again."""

    def __init__(self, alphabet: str) -> None:
        private = range(_FIRST, _FIRST + len(alphabet))
        self._lift = {code: ord(c) for code, c in zip(private, alphabet, strict=True)}
        self._cover = dict.fromkeys(private, _REPLACEMENT) | {c: code for code, c in self._lift.items()}

    def lift(self, text: str) -> str:
        return text.translate(self._lift)

    def conversation(self, chat: Conversation) -> Conversation:
        """Roles, and the fixed words of tools and schemas, stay as they are: templates compare them."""
        variables = {k: self._documents(v) if k == "documents" else v for k, v in chat.variables.items()}
        return msgspec.structs.replace(
            chat,
            messages=[{k: self._field(k, v) for k, v in message.items()} for message in chat.messages],
            tools=[{k: self._tool_field(k, v) for k, v in tool.items()} for tool in chat.tools] if chat.tools else None,
            variables=variables,
        )

    def _documents(self, documents: object) -> object:
        assert isinstance(documents, list), type(documents)
        return [{k: self._value(v) for k, v in document.items()} for document in documents]

    def _field(self, key: str, value: object) -> object:
        if key == "role":
            return value
        if key == "tool_calls" and isinstance(value, list):
            return [{k: self._tool_field(k, v) for k, v in call.items()} for call in value]
        return self._value(value)

    def _tool_field(self, key: str, value: object) -> object:
        if key == "type":
            return value
        if key == "function" and isinstance(value, dict):
            return {k: self._schema(v) if k == "parameters" else self._value(v) for k, v in value.items()}
        return self._value(value)

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return value.translate(self._cover)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {self._value(k): self._value(v) for k, v in value.items()}
        return value

    def _schema(self, value: object) -> object:
        """The words of JSON Schema stay: some templates rewrite schemas into another notation."""
        if isinstance(value, str):
            return value if value in _SCHEMA_TYPES else self._value(value)
        if isinstance(value, list):
            return [self._schema(item) for item in value]
        if isinstance(value, dict):
            return {k if k in _SCHEMA_WORDS else self._value(k): self._schema(v) for k, v in value.items()}
        return value
