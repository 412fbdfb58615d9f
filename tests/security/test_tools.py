"""Tools that a client describes and calls that a model writes: data from the first byte to the last."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dayzero.core.events import FinishReason
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.parser import parser_for
from dayzero.grammar.tools import Tool
from tests.gateway.stand import says, stand

MESSAGES = [{"role": "user", "content": "hi"}]
ANY_TYPE: list[Any] = [None, True, 0, -1, 2**63, 1e308, "", "x", "\0", [], [[]], {}, {"type": 5}, {"$ref": "#"}]
KEYWORDS = ["type", "pattern", "properties", "required", "items", "enum", "$ref", "anyOf", "format", "minLength"]


def tool(parameters: object, name: object = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_schema_of_the_wrong_types_is_an_answer_or_a_400(keyword: str) -> None:
    """CVE-2025-48944: a `pattern` or a `type` that was no string ended the worker."""
    this = stand(tool_format=FORMATS["hermes"])
    for value in ANY_TYPE:
        for parameters in ({keyword: value}, {"type": "object", "properties": {"x": {keyword: value}}}):
            assert this.chat(tools=[tool(parameters)]).status_code in (200, 400), (keyword, value)
    for value in ANY_TYPE:
        for tools in (value, [value], [tool(value)], [tool({}, name=value)], [{"type": value}]):
            assert this.chat(tools=tools).status_code in (200, 400), value
    assert this.replica.running == {}
    assert this.gateway.admission.in_flight == 0


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "f\n", "é", "../f", "f;", "<tool_call>", "{{ 7*7 }}", "f\0"])
def test_a_name_that_is_no_plain_word_is_a_400(name: str) -> None:
    """CVE-2025-62426: a name is written into a template beside the model's own markup."""
    this = stand(tool_format=FORMATS["hermes"])
    response = this.chat(tools=[tool({}, name=name)])
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("tools")
    assert this.replica.submits == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_argument_that_is_code_stays_text(tmp_path: Path, format_name: str) -> None:
    """CVE-2025-9141: a call's argument was evaluated. Whatever a format makes of these, nothing is run."""
    trace = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(trace)!r}).touch()"
    quoted = json.dumps(code)
    outputs = [
        f'<tool_call>\n{{"name": "f", "arguments": {{"x": {quoted}}}}}\n</tool_call>',
        f"<tool_call>\n<function=f>\n<parameter=x>\n{code}\n</parameter>\n</function>\n</tool_call>",
        f"[f(x={code})]",
        f"[f(x={quoted})]",
        f'{{"name": "f", "parameters": {{"x": {quoted}}}}}',
        f'[TOOL_CALLS][{{"name": "f", "arguments": {{"x": {quoted}}}}}]',
    ]
    for output in outputs:
        parser = parser_for(FORMATS[format_name], [Tool("f", {"type": "object"})])
        parser.push(list(output))
        parser.finish()
    assert not trace.exists()


def test_an_argument_that_is_code_reaches_the_client_as_it_was_written() -> None:
    """CVE-2025-9141, from the model to the client."""
    arguments = "{\"x\": \"__import__('os').system('id')\"}"
    output = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    body = stand(says(output, FinishReason.STOP), tool_format=FORMATS["hermes"]).chat(tools=[tool({})]).json()
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == arguments


NESTED = ["[", "{", '{"a":', "f(", "[f(x=", "<tool_call>", "<think>", "<function=f>", '"\\', "'", ",", "\n", "[[", "<|"]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("unit", NESTED)
def test_an_output_that_repeats_is_read_in_time_that_grows_with_its_length(format_name: str, unit: str) -> None:
    """CVE-2025-48887: an expression in a parser of calls took time that doubled with each letter."""
    start = {
        "pythonic": "[f(x=",
        "llama3-json": '{"name": "f", "parameters": {"x": ',
        "hermes": '<tool_call>{"name": "f", "arguments": ',
    }
    for opening in ("", start.get(format_name, "")):
        parser = parser_for(FORMATS[format_name], [Tool("f", {"type": "object"})])
        began_s = time.process_time()
        parser.push([opening])
        for _ in range(5000):
            parser.push([unit])
        parser.finish()
        assert time.process_time() - began_s < 20  # a tenth of a second as it is; for ever if it doubled
