"""Count the public suites, and print them: python -m bench.suites.run

--store   keep the counts, and print them into docs/quality.md
"""

import argparse
import sys
from pathlib import Path

from bench.suites.cases import ROOT, WHY_NOT, folder
from bench.suites.counts import SUITES, keep, table

PAGE = ROOT / "docs" / "quality.md"
BEGIN, END = "<!-- suites: begin -->\n", "<!-- suites: end -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store", action="store_true", help="keep the counts, and print them into docs/quality.md")
    args = parser.parse_args()
    data = folder()
    if data is None:
        sys.exit(f"error: {WHY_NOT}")
    counts = {name: count(data) for name, count in SUITES.items()}
    print(table(counts))
    if args.store:
        keep(counts)
        print_between(PAGE, (BEGIN, END), table(counts))


def print_between(page: Path, marks: tuple[str, str], text: str) -> None:
    """Replace what stands between two marks of a page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    assert begin, marks
    assert end, marks
    page.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
