"""What the guard against repetition costs a token, and whether it mistakes honest texts for loops. No engine.

    python bench/bench_collapse.py [--repeats 7]

Cost: CPU time of `Guard.admit` for events of one token, over prose, and over table rows that are alike in part.
False alarms: findings in the sources and documents of this project, as they are and within a code fence, and in the
texts of the suites' folder (docs/quality.md) if it is there, in stretches of 8000 characters.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from record import record, say
from suites.cases import folder

from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.core.events import TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.gateway.guard import Guard, GuardPolicy
from dayzero.text.collapse import CollapseDetector
from dayzero.text.tokenizer import Tokenizer
from dayzero.wire.messages import Submit

ROOT = Path(__file__).resolve().parents[1]
STRETCH_CHARS = 8000
SUFFIXES = {".py", ".md", ".cpp", ".hpp", ".txt", ".json", ".jsonl"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_source(open_checkpoint(locate(None, offline=True, progress=lambda *_: None)).tokenizer)
    prose = tokenizer.encode((ROOT / "docs" / "api.md").read_text(encoding="utf-8"), special=False)
    table = tokenizer.encode("".join(f"| {n} | 0 | 0 | yes | no | 0 |\n" for n in range(400)), special=False)
    samples: dict[str, list[float]] = {"prose": [], "table rows": []}
    for _ in range(args.repeats):
        for tokens, times in zip((prose, table), samples.values(), strict=True):
            times.append(token_us(tokenizer, tokens))
    record("collapse", samples, unit="us_per_token", settings={"prose": len(prose), "table rows": len(table)})
    for name, texts in (("project", project_texts()), ("suites", suite_texts())):
        say({"bench": "collapse", "texts": name, **alarms(tokenizer, texts)})


def token_us(tokenizer: Tokenizer, tokens: Sequence[int]) -> float:
    submit = Submit(
        request_id=1, prompt=[1], params=SamplingParams(max_tokens=2**20, seed=1), salt="", policy_version=""
    )
    guard = Guard(GuardPolicy(mode="retry"), submit, tokenizer.bytes_by_id(skip_special=False))
    events = [TokenEvent(1, [token]) for token in tokens]
    begun_s = time.process_time()
    for event in events:
        guard.admit(event)
    return (time.process_time() - begun_s) / len(tokens) * 1e6


def alarms(tokenizer: Tokenizer, texts: Iterator[str]) -> dict[str, int]:
    count = {"texts": 0, "tokens": 0, "findings": 0}
    for text in texts:
        detector = CollapseDetector()
        tokens = tokenizer.encode(text, special=False)
        count["texts"] += 1
        count["tokens"] += len(tokens)
        count["findings"] += any(detector.push(token, tokenizer.token_bytes(token)) is not None for token in tokens)
    return count


def project_texts() -> Iterator[str]:
    for part in ("src", "docs", "native", "tests"):
        for stretch in stretches(ROOT / part):
            yield stretch
            yield f"```\n{stretch}\n```\n"


def suite_texts() -> Iterator[str]:
    place = folder()
    return iter(()) if place is None else stretches(place)


def stretches(place: Path) -> Iterator[str]:
    """A line of JSON is a text of its own."""
    for path in sorted(place.rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
            yield from (part[at : at + STRETCH_CHARS] for at in range(0, len(part), STRETCH_CHARS))


if __name__ == "__main__":
    main()
