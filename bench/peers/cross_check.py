"""llama.cpp's peer beside its own llama-bench: `python -m bench.peers.cross_check [--form Q4_0 Q8_0]`, from the root.

The same file and as many threads, in turns: `decode` over tg128, `prefill` over pp1024. A line for each form to stderr,
a JSON line to stdout. tg128 begins without a prompt, `decode` after one of 128 tokens: a little less than 1 is as it
should be.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.interval import ratio
from bench.peers.contenders import IN_PROCESS, ROOT, SMOLLM2, Contender, command, environment
from bench.peers.measures import LONG, OUT, Prompter, decode, prefill
from bench.peers.process import PeerProcess
from bench.record import record

LLAMA_BENCH = ROOT / "llama.cpp" / "build" / "bin" / "llama-bench"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--checkpoint", default=SMOLLM2)
    parser.add_argument("--form", nargs="+", default=["Q4_0", "Q8_0"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    for contender in IN_PROCESS:
        if contender.engine == "llama.cpp" and contender.form in args.form:
            check(contender, args)


def check(contender: Contender, args: argparse.Namespace) -> None:
    model = ROOT / "models" / args.checkpoint / contender.model
    log = ROOT / "logs" / f"cross-check-{contender.form}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    samples: dict[str, list[float]] = {"decode": [], "tg128": [], "prefill": [], "pp1024": []}
    with PeerProcess(command(contender), environment(contender.engine, args.threads), log) as peer:
        peer.load(model, args.threads, contender.options)
        for repeat in range(args.repeats + 1):
            peer.resume()
            found = {"decode": decode(peer, Prompter(f"d{repeat}")), "prefill": prefill(peer, Prompter(f"p{repeat}"))}
            peer.suspend()
            found |= llama_bench(model, args.threads)
            for name, value in found.items() if repeat else ():  # the first warms both
                samples[name].append(value)
    settings = {"measure": contender.name, "checkpoint": args.checkpoint, "threads": args.threads}
    record("cross-check", samples, unit="tokens/s", settings=settings)
    tokens, prompts = ratio(samples["decode"], samples["tg128"]), ratio(samples["prefill"], samples["pp1024"])
    sys.stderr.write(f"{contender.name} over llama-bench: decode {tokens}, prefill {prompts}\n")


def llama_bench(model: Path, threads: int) -> dict[str, float]:
    """Tokens/s of its own two tests, each once after a warm-up of its own."""
    options = ("-t", threads, "-p", LONG, "-n", OUT, "-b", 2048, "-r", 1, "-o", "json")
    words = [str(word) for word in (LLAMA_BENCH, "-m", model, *options)]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return {"tg128" if test["n_gen"] else "pp1024": test["avg_ts"] for test in found}


if __name__ == "__main__":
    main()
