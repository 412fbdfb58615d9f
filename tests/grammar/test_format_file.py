"""Formats that users write: the same records as the built-in ones, and a clear refusal of anything else."""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dayzero.errors import ConfigError
from dayzero.grammar.format import Format
from dayzero.grammar.format_file import MAX_BYTES, SHAPES, VALUES, read_format
from dayzero.grammar.formats.registry import FORMATS, chosen_format
from dayzero.grammar.parser import parser_for
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.tagged_object import Tags
from dayzero.grammar.tools import Tool
from tests.grammar.reading import Answer, ReadCall, read
from tests.grammar.upstream_cases import cases_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tool-formats.md").read_text(encoding="utf-8")
EXAMPLE, SAID = (re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[0] for kind in ("toml", "text"))
WRITABLE = [form for form in FORMATS.values() if not isinstance(form.shape, Messages)]


def toml_of(form: Format) -> str:
    """The record as a file: every key that is not its default."""
    shape = {"kind": next(name for name, kind in SHAPES.items() if kind is type(form.shape)), **changed(form.shape)}
    tables: dict[str, dict[str, Any]] = {"": changed(form), "shape": shape}
    del tables[""]["shape"]
    tables[""].pop("templates", None)
    if isinstance(tags := shape.pop("tags", None), Tags):
        tables["shape.tags"] = changed(tags)
        names = {says: name for name, says in VALUES.items()}
        begins = tables["shape.tags"].pop("value_begins")
        tables["shape.tags.value_begins"] = {begin: names[says] for begin, says in begins.items()}
    return "\n".join(f"{f'[{name}]' if name else ''}\n{lines(table)}" for name, table in tables.items())


def changed(record: Any) -> dict[str, Any]:
    fields = dataclasses.fields(record)
    return {field.name: value for field in fields if (value := getattr(record, field.name)) != field.default}


def lines(table: Mapping[str, Any]) -> str:
    return "\n".join(f"{quoted(key)} = {quoted(value)}" for key, value in table.items())


def quoted(value: object) -> str:
    """JSON's strings, lists and booleans are TOML's."""
    return json.dumps(value, ensure_ascii=False)


def file_of(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("form", WRITABLE, ids=lambda form: form.name)
def test_a_built_in_format_can_be_written_as_a_file(form: Format, tmp_path: Path) -> None:
    found = read_format(file_of(tmp_path, toml_of(form)))
    assert found == dataclasses.replace(form, templates=())
    for case in cases_of(form.name.replace("-", "_").replace(".", "")):
        starts = case.starts_in_reasoning
        ours, theirs = (parser_for(one, case.offered(), starts_in_reasoning=starts) for one in (form, found))
        assert read(theirs, [case.output]) == read(ours, [case.output])


def test_the_example_of_the_page_reads_what_the_page_says(tmp_path: Path) -> None:
    form = chosen_format(str(file_of(tmp_path, EXAMPLE)), "")
    assert form is not None
    answer = read(parser_for(form, [Tool("weather", {})]), [SAID])
    call = ReadCall("weather", '{"city": "Köln"}', True)
    assert answer == Answer(reasoning="The weather, then.", calls=[call])


def test_the_page_names_every_key_and_every_kind() -> None:
    keys = {field.name for kind in (Format, Tags, *SHAPES.values()) for field in dataclasses.fields(kind)}
    for word in {*keys - {"templates"}, *SHAPES}:
        assert f"`{word}`" in PAGE, word


MINIMAL = """
name = "mine"
triggers = ["<call>"]
[shape]
kind = "enveloped"
end = "</call>"
"""
NAMED = 'name = "mine"\ntriggers = ["<call>"]\n[shape]\nkind = "named"\n'
TAGGED = EXAMPLE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "shape: missing"),
        ("name = ", "not TOML"),
        ("a = " + "[" * 9999, "not TOML"),
        ("\udcff", "not TOML"),
        ("#" * (MAX_BYTES + 1), "too large"),
        (MINIMAL.replace('"mine"', "5"), "name: Expected `str`, got `int`"),
        (MINIMAL.replace('"mine"', '"my format"'), "name: not a plain word"),
        (MINIMAL.replace('name = "mine"', ""), "name: missing"),
        (MINIMAL.replace('["<call>"]', '"<call>"'), "triggers: Expected `array`, got `str`"),
        (MINIMAL.replace('["<call>"]', '[""]'), "triggers: an empty string"),
        (MINIMAL.replace('["<call>"]', "[]"), "triggers: nothing begins a call"),
        (MINIMAL.replace('["<call>"]', f'["{"x" * 257}"]'), "triggers.0: too long"),
        (MINIMAL.replace('["<call>"]', str(["x"] * 65)), "triggers: too large"),
        (MINIMAL.replace("enveloped", "eval"), "shape.kind: missing or unknown"),
        (MINIMAL.replace("end =", "ends ="), "shape.ends: no such key"),
        (MINIMAL.replace('end = "</call>"', ""), "shape.end: missing"),
        (MINIMAL.replace("</call>", ""), "shape.end: empty"),
        ('reasoning = ["<a>"]' + MINIMAL, "reasoning: Expected `array` of length 2"),
        ('reasoning = ["<a>", "<a>"]' + MINIMAL, "reasoning: begins as it ends"),
        ('bare = " {"' + MINIMAL, "bare: holds white space"),
        ('templates = [["x"]]' + MINIMAL, "templates: no such key"),
        ('code = "x"' + MINIMAL, "code: no such key"),
        ("shape = 5", "shape: missing or no table"),
        (NAMED + 'head = "{name} {name}"', "shape.head"),
        (NAMED + 'head = "(a+)+$"', "shape.head"),
        (NAMED + 'section_ends = ["</s>"]', "shape.begin: missing"),
        (NAMED + 'begin = "<c>"\nsection_ends = ["<c>d"]', "begins as another"),
        (NAMED + 'begin = "<c>"\nsection_ends = [""]', "shape.section_ends: an empty string"),
        (NAMED + 'separators = [""]', "shape.separators: an empty string"),
        (TAGGED.replace('"schema"', '"maybe"'), 'shape.tags.value_begins."": unknown'),
        (TAGGED.replace('"schema"', '"json"'), "shape.tags.value_begins: not for every value"),
        (TAGGED.replace('"schema"', "[]"), 'shape.tags.value_begins."": unknown'),
        (TAGGED.replace('key_begin = "<parameter="', 'key_begin = "</"'), "begins as another"),
        (TAGGED.replace("has_own_lines = true", "has_own_lines = 1"), "shape.tags.has_own_lines: Expected `bool`"),
        (TAGGED.replace('section_end = "</tool_call>"', 'section_end = "<func"'), "begins as another"),
    ],
)
def test_what_is_no_format_is_refused_by_its_key(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        chosen_format(str(path), "")
    assert caught.value.hint
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "no.toml", tmp_path):
        with pytest.raises(ConfigError, match=re.escape(str(path))):
            read_format(path)
