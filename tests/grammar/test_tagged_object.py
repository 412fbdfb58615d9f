"""Keys and values between tags, as JSON."""

import json

import pytest

from dayzero.grammar.tagged_object import MAX_KEY, TaggedObject, Tags

LINES = Tags(
    key_begin="<parameter=",
    key_end=">",
    value_begins={"": None},
    value_end="</parameter>",
    end="</function>",
    has_own_lines=True,
)
PAIRS = Tags(
    key_begin="<arg_key>",
    key_end="</arg_key>",
    value_begins={"<arg_value>": None},
    value_end="</arg_value>",
    end="</tool_call>",
)
TYPED = Tags(
    key_begin='<parameter name="',
    key_end='"',
    value_begins={'string="true">': True, 'string="false">': False},
    value_end="</parameter>",
    end="</invoke>",
)
PARAMETERS = {
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "maybe": {"type": ["null", "string"]},
        "either": {"anyOf": [{"type": "null"}, {"oneOf": [{"type": "object"}, {"type": "string"}]}]},
        "unit": {"enum": ["1", "2"]},
        "any": {},
        "color": {"$ref": "#/$defs/color"},
        "circle": {"anyOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/color"}, {"type": "null"}]},
        "lost": {"$ref": "#/$defs/lost"},
    },
    "$defs": {
        "color": {"type": "string", "enum": ["1"]},
        "circle": {"anyOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/circle"}]},
    },
}


def read(tags: Tags, *pieces: str) -> tuple[str, str, TaggedObject]:
    """The JSON, what was left unread, and the object."""
    tagged, text, rest = TaggedObject(tags, PARAMETERS), "", ""
    for piece in pieces:
        rest += piece
        given, num_read = tagged.feed(rest)
        text, rest = text + given, rest[num_read:]
    return text, rest, tagged


def lines(key: str, value: str) -> str:
    return f"<parameter={key}>{value}</parameter>"


CASES = [
    (LINES, lines("any", '["</parameter>", "\\"</parameter>"]'), {"any": ["</parameter>", '"</parameter>']}),
    (LINES, lines("any", '["a') + "\n" + lines("count", "1"), {"any": '["a', "count": 1}),
    (LINES, lines("any", 'say "a'), {"any": 'say "a'}),
    (LINES, "\n", {}),
    (LINES, lines("text", "\nKöln\n"), {"text": "Köln"}),
    (LINES, lines("text", "\n\n a </para\n\n"), {"text": "\n a </para\n"}),
    (LINES, lines("text", "") + lines("maybe", "\n"), {"text": "", "maybe": ""}),
    (LINES, lines("text", "5") + "\n" + lines("count", "\n5\n"), {"text": "5", "count": 5}),
    (LINES, lines("count", "\nfive\n") + lines("any", "True"), {"count": "five", "any": True}),
    (LINES, lines("either", '{"a": [1]}') + lines("unit", "1"), {"either": {"a": [1]}, "unit": "1"}),
    (LINES, lines("color", "1") + lines("circle", "2") + lines("lost", "3"), {"color": "1", "circle": "2", "lost": 3}),
    (LINES, lines("unknown", "5") + lines("count", "NaN"), {"unknown": "5", "count": "NaN"}),
    (LINES, lines("-n", "5") + lines('"q', "<b>"), {"-n": "5", '"q': "<b>"}),
    (PAIRS, "<arg_key>count</arg_key>\n<arg_value> 7 </arg_value>\n", {"count": 7}),
    (PAIRS, "<arg_key>text</arg_key><arg_value> 7\n</arg_value>", {"text": " 7\n"}),
    (TYPED, '<parameter name="count" string="true">7</parameter>', {"count": "7"}),
    (TYPED, '<parameter name="text" string="false">[7]</parameter>', {"text": [7]}),
]


@pytest.mark.parametrize(("tags", "text", "expected"), CASES)
def test_an_object_is_read_however_it_is_cut(tags: Tags, text: str, expected: dict[str, object]) -> None:
    text += tags.end
    whole, rest, tagged = read(tags, text)
    assert json.loads(whole) == expected
    assert (rest, tagged.is_complete, tagged.is_broken) == (tags.end, True, False)
    assert read(tags, *text)[0] == whole
    assert all(read(tags, text[:cut], text[cut:])[0] == whole for cut in range(len(text)))


def test_a_string_streams_and_another_value_waits_for_its_end() -> None:
    assert read(LINES, "<parameter=text>\nKö\nln\n</par")[0] == '{"text": "Kö\\nln'
    assert read(LINES, "<parameter=count>12")[0] == '{"count": '


def test_what_is_between_the_tags_breaks_the_object() -> None:
    assert read(LINES, "word")[2].is_broken
    assert read(PAIRS, "<arg_key>count</arg_key>7")[2].is_broken
    assert read(LINES, "<parameter=" + "k" * MAX_KEY)[2].is_broken
