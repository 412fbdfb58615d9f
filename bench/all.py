"""Run benchmarks and print what is stored into docs/performance.md.

    python bench/all.py                        all that needs no other engine and less than half an hour
    python bench/all.py --only rows,start      these parts alone; the others stay as they were measured last
    python bench/all.py --from-results         measure nothing

A part is a command that prints JSON lines, kept in bench/results/<part>.jsonl.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, from anywhere

from bench.page import main as print_page  # noqa: E402
from bench.stored import keep  # noqa: E402

PARTS: Mapping[str, Sequence[str]] = {
    "transformers": ("bench/bench_engine.py",),
    "sampled": ("bench/bench_sampled.py",),
    "exact": ("bench/bench_exact.py",),
    "loop": ("bench/bench_loop.py",),
    "wire": ("bench/bench_serve.py", "--only", "wire"),
    "start": ("bench/bench_serve.py", "--only", "start"),
    "memory": ("bench/bench_serve.py", "--only", "memory"),
    "gap": ("bench/bench_gap.py",),
    "parser": ("bench/bench_parser.py",),
    "structured": ("bench/bench_structured.py",),
    "bombs": ("bench/bench_bombs.py",),
    "recorded": ("bench/bench_recorded.py", "--only", "recorded"),
    "rows": ("bench/bench_recorded.py", "--only", "rows"),
    "prompt": ("bench/bench_prompt.py",),
    "roof": ("-m", "bench.peers.roof"),
    "peak": ("-m", "bench.peers.peak"),
}
LONG: Mapping[str, Sequence[str]] = {
    "fidelity": ("bench/bench_fidelity.py", "--peers", "--floor"),
    "fidelity-degrid": ("bench/bench_fidelity.py", "--peers", "--degrid"),
    "fidelity-kv": ("bench/bench_fidelity.py", "--precision", "bf16", "--kv-dtype", "bf16,int8"),
    "grammar": ("bench/bench_grammar.py",),
    "silence": ("bench/bench_silence.py",),
    "endpoints": ("bench/bench_endpoints.py",),
    "embeddings": ("bench/bench_embeddings.py",),
    "cross-check": ("-m", "bench.peers.cross_check"),
    "peers-smollm2-135m": ("-m", "bench.peers.run", "--checkpoint", "smollm2-135m"),
    "peers-llama-1b": ("-m", "bench.peers.run", "--checkpoint", "llama-1b"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", type=lambda names: names.split(","), default=list(PARTS), metavar="PART,...")
    parser.add_argument("--from-results", action="store_true", help="measure nothing")
    parser.add_argument("--repeats", type=int, help="default: each benchmark's own")
    args = parser.parse_args()
    commands = {**PARTS, **LONG}
    if unknown := [name for name in args.only if name not in commands]:
        parser.error(f"no such part: {', '.join(unknown)} (known: {', '.join(commands)})")
    repeats = [] if args.repeats is None else ["--repeats", str(args.repeats)]
    failed = []
    for part in [] if args.from_results else args.only:
        sys.stderr.write(f"{part}\n")
        lines = measured([*commands[part], *(() if part.startswith("fidelity") else repeats)])
        if lines:
            keep(part, lines)
        else:
            failed.append(part)
    print_page()
    if failed:
        sys.exit(f"error: nothing new of {', '.join(failed)}")


def measured(command: Sequence[str]) -> list[dict[str, object]]:
    """What a command prints; nothing if it fails, which has told why."""
    found = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    lines = [] if found.returncode else found.stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


if __name__ == "__main__":
    main()
