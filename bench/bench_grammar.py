"""What a grammar costs: the public schemas compiled and their instances followed, beside xgrammar.

    python bench/bench_grammar.py [--repeats 3] [--model FILE]

Both libraries in processes of their own, in turns, over the vocabulary of the embedded model or of `--model`. Needs the
cases of docs/quality.md, and of bench/peers/install.sh the peer `vllm`, which brings xgrammar; without it, ours alone.
A schema that takes longer than 20 s, or ends its process, is counted as not compiled.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, from anywhere

from bench.peers.contenders import ROOT as PEERS  # noqa: E402
from bench.record import record  # noqa: E402
from bench.suites.cases import WHY_NOT, SchemaCase, folder, json_schema_bench, kimi  # noqa: E402
from bench.suites.instances import canonical, ordered  # noqa: E402
from dayzero.checkpoint.locate import locate  # noqa: E402
from dayzero.checkpoint.open import open_checkpoint  # noqa: E402
from dayzero.text.tokenizer import Tokenizer  # noqa: E402

TIMEOUT_S = 20.0
FOLLOWERS: Mapping[str, tuple[Path, Path]] = {
    "dayzero": (Path(sys.executable), ROOT / "bench" / "peers" / "follow_dayzero.py"),
    "xgrammar": (PEERS / "vllm" / "bin" / "python", ROOT / "bench" / "peers" / "follow_xgrammar.py"),
}
Reply = Mapping[str, Any]


class FollowerProcess:
    """Starts anew when it has ended or took too long."""

    def __init__(self, command: Sequence[str], vocabulary: str) -> None:
        self._command = command
        self._vocabulary = vocabulary
        self._start()

    def ask(self, request: Mapping[str, object]) -> Reply | None:
        """None: it took too long, or ended."""
        self._write(json.dumps(request))
        try:
            line = self._replies.get(timeout=TIMEOUT_S)
        except queue.Empty:
            line = ""
        if not line:
            self.close()
            self._start()
            return None
        reply: Reply = json.loads(line)
        return reply

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._replies: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout, self._replies), daemon=True).start()
        self._write(self._vocabulary)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    @staticmethod
    def _read(lines: Any, replies: "queue.Queue[str]") -> None:
        for line in lines:
            replies.put(line)
        replies.put("")


@dataclass
class Seen:
    """Of one library in one repeat."""

    first_masks_s: list[float] = field(default_factory=list)
    masks_s: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, case: SchemaCase, reply: Reply | None) -> None:
        if reply is None or "refused" in reply:
            self.counts["not compiled" if reply is None else "refused"] += 1
            return
        self.counts["compiled"] += 1
        self.first_masks_s.append(reply["first_mask_s"])
        self.masks_s += reply["masks_s"]
        valid = reply["accepted"][: len(case.valid)]
        invalid = reply["accepted"][len(case.valid) :]
        self.counts["valid"] += len(valid)
        self.counts["valid, refused"] += len(valid) - sum(valid)
        self.counts["invalid"] += len(invalid)
        self.counts["invalid, accepted"] += sum(invalid)


def request_of(case: SchemaCase, tokenizer: Tokenizer) -> Mapping[str, object]:
    """Its instances as JSON that models write, valid ones first."""
    texts = [canonical(ordered(value, case.schema, case.schema)) for value in (*case.valid, *case.invalid)]
    instances = [tokenizer.encode(text, special=False) for text in texts]
    return {"schema": json.dumps(case.schema), "instances": instances}


def vocabulary(tokenizer: Tokenizer, eos: Sequence[int]) -> str:
    tokens = [tokenizer.token_bytes(token).decode("latin-1") for token in range(tokenizer.vocab_size)]
    return json.dumps({"tokens": tokens, "eos": list(eos), "tokenizer": tokenizer.to_json()})


def quantiles(values: Sequence[float], scale: float) -> dict[str, float]:
    found = np.array(values) * scale
    return {"p50": float(np.median(found)), "p99": float(np.quantile(found, 0.99)), "longest": float(found.max())}


def say(seen: Mapping[str, Sequence[Seen]], settings: Mapping[str, object]) -> None:
    """A line for each library and measure, with what it compiled and accepted."""
    for name, repeats in seen.items():
        about = {**settings, "library": name, "counts": dict(repeats[0].counts)}
        for measure, unit, scale in (("first mask", "ms", 1e3), ("mask", "us", 1e6)):
            found = [quantiles(one.first_masks_s if unit == "ms" else one.masks_s, scale) for one in repeats]
            samples = {quantile: [one[quantile] for one in found] for quantile in found[0]}
            session = f"{name}, {settings['vocabulary']}"  # of a line among those of its part (bench/stored.py)
            record("grammar", samples, unit=unit, settings={"measure": measure, "session": session, **about})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--libraries", type=lambda names: names.split(","), default=list(FOLLOWERS), metavar="NAME,...")
    parser.add_argument("--model", help="whose vocabulary; default: the embedded model's")
    args = parser.parse_args()
    data = folder()
    if data is None:
        sys.exit(f"error: {WHY_NOT}")
    checkpoint = open_checkpoint(locate(args.model, offline=True, progress=lambda *_: None))
    tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
    asked = [(case, request_of(case, tokenizer)) for case in (*json_schema_bench(data), *kimi(data))]
    line = vocabulary(tokenizer, checkpoint.generation.eos_token_ids)
    found = {
        name: (python, script)
        for name, (python, script) in FOLLOWERS.items()
        if name in args.libraries and python.exists()
    }
    processes = {name: FollowerProcess([str(part) for part in command], line) for name, command in found.items()}
    seen: dict[str, list[Seen]] = {name: [Seen() for _ in range(args.repeats)] for name in processes}
    for repeat in range(args.repeats):
        for case, request in asked:
            for name, process in processes.items():
                seen[name][repeat].add(case, process.ask(request))
    for process in processes.values():
        process.close()
    say(seen, {"vocabulary": tokenizer.vocab_size, "schemas": len(asked)})


if __name__ == "__main__":
    main()
