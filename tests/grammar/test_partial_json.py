"""A document read in pieces comes to what json.loads makes of it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayzero.grammar.partial_json import MAX_DEPTH, MAX_PATH_CHARS, Begun, Ended, Fragment, PartialJson, Reading, Scalar

STRINGS = st.text(st.characters() | st.sampled_from('"\\/~\n\t\u2028😀é0'), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=20,
)


def read(pieces: Sequence[str]) -> tuple[list[Reading], PartialJson]:
    reader = PartialJson()
    readings = [reading for piece in pieces for reading in reader.push(piece)]
    return readings + reader.finish(), reader


def merged(readings: Sequence[Reading]) -> list[Reading]:
    """With the fragments of each string put together."""
    out: list[Reading] = []
    for reading in readings:
        if out and isinstance(reading, Fragment) and isinstance(out[-1], Fragment) and out[-1].path == reading.path:
            out[-1] = Fragment(reading.path, out[-1].text + reading.text)
        else:
            out.append(reading)
    return out


def walk(value: Any, path: str = "") -> list[Reading]:
    """What reading the document should come to, in order."""
    if isinstance(value, dict):
        names = [name.replace("~", "~0").replace("/", "~1") for name in value]
        inner = [r for name, child in zip(names, value.values(), strict=True) for r in walk(child, f"{path}/{name}")]
        return [Begun(path, "object"), *inner, Ended(path)]
    if isinstance(value, list):
        inner = [r for i, child in enumerate(value) for r in walk(child, f"{path}/{i}")]
        return [Begun(path, "array"), *inner, Ended(path)]
    if isinstance(value, str):
        return [Begun(path, "string"), *([Fragment(path, value)] if value else []), Ended(path)]
    return [Scalar(path, json.dumps(value))]


@given(VALUES, st.booleans(), st.sampled_from([None, 1]), st.data())
def test_any_document_in_any_pieces_reads_as_json_loads_does(
    value: Any, ascii_only: bool, indent: int | None, data: st.DataObject
) -> None:
    document = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(document)), max_size=8)))
    pieces = [document[a:b] for a, b in zip([0, *cuts], [*cuts, len(document)], strict=True)]
    readings, reader = read(pieces)
    assert merged(readings) == walk(json.loads(document))
    assert reader.is_complete
    assert not reader.is_broken


@pytest.mark.parametrize(
    "document",
    [
        r'{"a":"\uD83D\uDE00","b/c~":[1,-2500.0,{"":null}],"d":"x\"\\\/\b\f\n\r\t\u00e9"}',
        r'"\uD83D"',
        r'"\uD83Dx\uDE00"',
        r'"\uD83D\uD83D\uDE00"',
        " [ ] ",
        "-0.0",
        "true ",
    ],
)
def test_every_single_cut_reads_alike(document: str) -> None:
    expected = walk(json.loads(document))
    for cut in range(len(document) + 1):
        assert merged(read([document[:cut], document[cut:]])[0]) == expected, cut
    assert merged(read(document)[0]) == expected


@given(st.text('{}[]",:\\u0123dDeE+-.truefalsn \n', max_size=24))
def test_what_json_loads_refuses_is_broken_and_nothing_else_is(text: str) -> None:
    try:
        json.loads(text, parse_constant=lambda _: pytest.fail("a constant"))
        is_json = True
    except ValueError:
        is_json = False
    _, reader = read(text)
    assert reader.is_broken is not is_json
    assert reader.is_complete or not is_json


def test_an_open_string_is_shown_as_far_as_it_goes() -> None:
    reader = PartialJson()
    assert reader.push('{"title":"Dr') == [Begun("", "object"), Begun("/title", "string"), Fragment("/title", "Dr")]
    assert reader.push("aft") == [Fragment("/title", "aft")]
    assert reader.push('","n":1') == [Ended("/title")]
    assert reader.push("}") == [Scalar("/n", "1"), Ended("")]


def test_a_word_is_complete_with_its_last_letter_and_a_number_with_what_follows_it() -> None:
    reader = PartialJson()
    assert reader.push("[tru") == [Begun("", "array")]
    assert reader.push("e") == [Scalar("/0", "true")]
    assert reader.push(",1.50e+1") == []
    assert reader.push("\n") == [Scalar("/1", "1.50e+1")]


def test_half_a_character_is_never_shown() -> None:
    reader = PartialJson()
    assert reader.push(r'"\uD83D') == [Begun("", "string")]
    assert reader.push(r"\uDE0") == []
    assert reader.push("0") == [Fragment("", "😀")]


@pytest.mark.parametrize(
    ("document", "is_plain"),
    [
        ('{"a":{"a":1},"b":{"a":1}}', True),
        (r'{"a":"\u0061"}', True),
        ('[{"a":1},{"a":1}]', True),
        ('{"a":1,"a":1}', False),
        ('{"b":{"a":1,"":2,"a":1}}', False),
        (r'{"\u0061":1}', False),
        (r'{"a\"b":1}', False),
    ],
)
def test_names_that_come_twice_or_with_an_escape_are_noticed(document: str, is_plain: bool) -> None:
    assert read([document])[1].has_plain_names is is_plain


@pytest.mark.parametrize(("document", "is_number"), [("1", True), (" -1.5 ", True), ("[1]", False), ('"1"', False)])
def test_a_document_that_is_one_number_is_noticed(document: str, is_number: bool) -> None:
    assert read([document])[1].is_number is is_number


def test_a_document_cut_short_is_broken_at_its_end_only() -> None:
    reader = PartialJson()
    reader.push('{"a":[1,2')
    assert not reader.is_broken
    reader.finish()
    assert reader.is_broken
    assert not reader.is_complete


def test_text_after_the_document_breaks_it() -> None:
    assert read(["{} x"])[1].is_broken


@pytest.mark.parametrize("text", ["[" * (MAX_DEPTH + 1), "1" * 1000, '{"' + "k" * MAX_PATH_CHARS + '":1}'])
def test_depth_numbers_and_paths_are_bounded(text: str) -> None:
    reader = PartialJson()
    reader.push(text)
    assert reader.is_broken


def test_an_escaped_string_costs_the_same_per_character_however_long_it_is() -> None:
    """Each character is looked at once: the text of all fragments is as long as the string."""
    readings, reader = read(['["', *[r"\n" + "x" * 9] * 5000, '"]'])
    assert sum(len(r.text) for r in readings if isinstance(r, Fragment)) == 50_000
    assert reader.is_complete
