"""docs/bugs.md: each number is there once, and leads to tests that exist and name it."""

import ast
import re
from pathlib import Path

import pytest

from tests.grammar.bug_cases import BUGS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "bugs.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| B(\d+) \|.*$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NUMBER = re.compile(r"\bB(\d+)\b")
ROWS = {int(row[1]): row[0] for row in ROW.finditer(PAGE)}
CASES = {bug.number for bug in BUGS}


def numbers_of(path: str, name: str) -> set[int]:
    """Those that a test's docstring names. Fails if there is no such test."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    (test,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return {int(number) for number in NUMBER.findall(ast.get_docstring(test) or "")}


def test_every_number_is_on_the_page_once() -> None:
    assert sorted(int(row[1]) for row in ROW.finditer(PAGE)) == list(range(1, 59))


@pytest.mark.parametrize("number", range(1, 59), ids="B{}".format)
def test_a_number_leads_to_a_test_that_names_it(number: int) -> None:
    tests = TEST.findall(ROWS[number])
    assert all(number in numbers_of(*test) for test in tests)
    assert tests or number in CASES


def test_every_number_that_a_test_names_leads_back() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for test in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            named = re.match(r"(B\d+(?:, B\d+)*): ", ast.get_docstring(test) or "")
            if named is None:
                continue
            for number in NUMBER.findall(named[1]):
                assert f"{path.relative_to(ROOT)}::{test.name}`" in ROWS[int(number)]
