"""Where a JSON object ends."""

import pytest

from dayzero.grammar.json_object import JsonObject

OBJECTS = ["{}", '{"a": {"b": [1, {}]}}', '{"a": "}\\" ]{"}', '{"a\\\\": "\\ud83d\\ude00"}', ' \n{"a": 1}']


@pytest.mark.parametrize("text", OBJECTS)
def test_the_end_is_behind_the_last_brace_however_the_text_is_cut(text: str) -> None:
    for cut in range(len(text) + 1):
        json = JsonObject()
        first = json.feed(text[:cut])
        assert first == cut
        assert json.is_complete == (cut == len(text))
        second = json.feed(text[cut:] + "}{")
        assert json.is_complete
        assert second == (len(text) - cut if cut < len(text) else 0)


def test_what_does_not_begin_with_a_brace_is_never_complete() -> None:
    json = JsonObject()
    assert json.feed(' "a"}') == 5
    assert not json.is_complete
    assert not json.is_in_string


@pytest.mark.parametrize("text", ['{"a": 1<|end|>', '{"a": <b>}', '{"a": [1, (2)]}'])
def test_what_json_has_nowhere_breaks_it_and_stays_unread(text: str) -> None:
    for cut in range(len(text)):
        json = JsonObject()
        first = json.feed(text[:cut])
        assert text[first + json.feed(text[first:]) :].startswith(("<", "("))
        assert json.is_broken
        assert not json.is_complete


def test_a_string_is_known_to_be_open() -> None:
    json = JsonObject()
    json.feed('{"a": "b\\')
    assert json.is_in_string
    json.feed('""')
    assert not json.is_in_string
