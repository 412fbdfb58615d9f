"""What was measured last: bench/results/<part>.jsonl, a file of JSON lines for each part of the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Line = dict[str, Any]


def stored(part: str, folder: Path = RESULTS) -> list[Line]:
    """Nothing of a part that was never measured."""
    path = folder / f"{part}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(part: str, lines: Sequence[Line], folder: Path = RESULTS) -> None:
    """Replace what of a part was measured again, so that a run of some measures leaves the others as they were."""
    again = {_measured(line) for line in lines}
    kept = [line for line in stored(part, folder) if _measured(line) not in again]
    folder.mkdir(exist_ok=True)
    (folder / f"{part}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (*kept, *lines)))


def _measured(line: Line) -> tuple[str | None, ...]:
    return line["bench"], line["settings"].get("measure"), line["settings"].get("session")
