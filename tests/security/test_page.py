"""docs/security.md: each advisory leads to a test that exists and, if it is one of this folder, cites it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
ADVISORY = re.compile(r"(?:CVE|PYSEC)-\d{4}-\d+|GHSA(?:-\w{4}){3}")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
APPLYING = PAGE.read_text(encoding="utf-8").partition("## Advisories that apply")[2].partition("\n## ")[0]
ROWS = [line for line in APPLYING.splitlines() if line.startswith("| ") and "::" in line]


def docstring(path: str, name: str) -> str:
    """Of a test and of its file. Fails if there is no such test."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    (test,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return f"{ast.get_docstring(tree)} {ast.get_docstring(test)}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:20])
def test_each_advisory_has_a_test_that_cites_it(row: str) -> None:
    tests = TEST.findall(row)
    assert tests
    cited = " ".join(docstring(*test) for test in tests)
    if all(path.startswith("tests/security/") for path, _ in tests):
        assert set(ADVISORY.findall(row)) <= set(ADVISORY.findall(cited))


def test_each_advisory_that_a_test_cites_is_on_the_page() -> None:
    page = set(ADVISORY.findall(PAGE.read_text(encoding="utf-8")))
    for path in (ROOT / "tests" / "security").glob("test_*.py"):
        assert set(ADVISORY.findall(path.read_text(encoding="utf-8"))) <= page, path.name
