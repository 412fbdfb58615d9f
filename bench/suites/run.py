"""Count the public suites, and print them: python -m bench.suites.run

--store   keep the counts, and print them into docs/quality.md
"""

import argparse
import sys

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
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}{table(counts)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
