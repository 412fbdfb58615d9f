"""How far each precision is from the float32 golden run of the same weights.

    python bench/bench_fidelity.py [--precision bf16,int8,nvfp4,as-stored] [--kv-dtype auto] [--tokens 60000] [--peers]
        [--model PATH] [--golden-dtype float32] [--text FILE[:FIELD+FIELD]]... [--degrid [SEED]] [--floor]

All models are loaded at once and see the same tokens. One JSON line for each precision and KV dtype; KL(golden ||
served) is in nats a token over the whole vocabulary, intervals are of 95 %, by a bootstrap over documents. Each pair is
compared in a line of its own. `--floor` adds the golden run in other chunks, which must agree to the bit, and by the
reference kernels.

`--degrid` compares with another golden model: the checkpoint's weights moved off their grid by seeded noise of
step / sqrt(12). `as-stored` is then Q4_0 and Q4_1 of those, rounded to nearest.

`--peers` adds llama.cpp (bench/peers), on files of `make_models` of the embedded model; `as-stored` is then ours on the
same files.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import combinations, product
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # read when torch is loaded

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))  # run as a file, from anywhere

from bench.peers.contenders import DEGRID_SEED, DEGRIDDED, IN_PROCESS, ROOT, SMOLLM2, is_installed
from bench.peers.scorer import open_peer_scorer
from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import Checkpoint, open_checkpoint
from dayzero.checkpoint.tensor import StoredTensor
from dayzero.core.spec import EngineConfig
from dayzero.kernels.registry import select_reference
from dayzero.text.tokenizer import Tokenizer
from dayzero.workshop.bench.provenance import commit, machine
from dayzero.workshop.fidelity.degrid import degrid, has_grid
from dayzero.workshop.fidelity.estimate import difference, estimate
from dayzero.workshop.fidelity.measure import measure
from dayzero.workshop.fidelity.passages import Text, bundled, passages, read_texts
from dayzero.workshop.fidelity.regrid import regrid
from dayzero.workshop.fidelity.scorer import ModelScorer, Scorer, open_scorer

Weights = Mapping[str, StoredTensor]


def main() -> None:
    args = _arguments()
    path = locate(args.model, offline=False, progress=lambda *_: None)
    checkpoint = open_checkpoint(path)
    chosen = passages(
        _texts(args.text),
        Tokenizer.from_source(checkpoint.tokenizer),
        num_tokens=args.tokens,
        passage_tokens=args.passage_tokens,
    )
    weights = None if args.degrid is None else degrid(checkpoint.tensors, args.degrid)
    golden = EngineConfig(model=str(path), dtype=args.golden_dtype, kernels="torch")
    scorer = open_scorer(golden, passage_tokens=args.passage_tokens, weights=weights)
    served: dict[str, Scorer] = {}
    for precision, kv_dtype in product(args.precision, args.kv_dtype.split(",")):
        for name, variant in _variants(precision, checkpoint, weights):
            config = EngineConfig(model=str(path), precision=precision, kv_dtype=kv_dtype, kernels=args.kernels)
            served[name if kv_dtype == "auto" else f"{name}, KV in {kv_dtype}"] = open_scorer(
                config, passage_tokens=args.passage_tokens, weights=variant
            )
    floors = _floors(scorer, golden, args.passage_tokens, weights) if args.floor else {}
    with ExitStack() as stack:
        served |= _files(args, stack) if args.peers else {}
        rows = measure(scorer, served | floors, chosen, _show)
    head = {
        "bench": "fidelity",
        "commit": commit(),
        "machine": machine(),
        "settings": {
            "model": path.name,
            "golden": args.golden_dtype if weights is None else f"{args.golden_dtype}, degridded, seed {args.degrid}",
            "text": args.text or ["bundled"],
            "passage_tokens": args.passage_tokens,
        },
    }
    for name, measured in rows.items():
        _print(head | {"served": name} | msgspec.to_builtins(estimate(measured)))
    for a, b in combinations(served, 2):
        _print(head | {"served": [a, b], "kl_difference": msgspec.to_builtins(difference(rows[a], rows[b]))})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--precision", default="bf16,int8,nvfp4,as-stored", help="of what is served; with commas")
    parser.add_argument("--kv-dtype", default="auto", help="of what is served; with commas")
    parser.add_argument("--tokens", type=int, default=60_000)
    parser.add_argument("--model", help="default: the embedded one")
    parser.add_argument("--golden-dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--kernels", default="auto", help="of what is served: auto, native or torch")
    parser.add_argument("--passage-tokens", type=int, default=1024, help="longer documents are cut")
    parser.add_argument("--text", action="append", help="a text file, or a .jsonl and its fields; default: bundled")
    parser.add_argument("--degrid", type=int, nargs="?", const=0, metavar="SEED")
    parser.add_argument("--floor", action="store_true", help="the golden run against itself, computed otherwise")
    parser.add_argument("--peers", action="store_true", help="llama.cpp and ours on the files of make_models")
    args = parser.parse_args()
    if args.peers and (args.model or args.degrid not in (None, DEGRID_SEED)):
        parser.error(f"--peers has files of the embedded model, degridded with seed {DEGRID_SEED}, alone")
    args.precision = [name for name in args.precision.split(",") if name and not (args.peers and name == "as-stored")]
    return args


def _texts(given: list[str] | None) -> list[Text]:
    if not given:
        return bundled()
    texts = []
    for where in given:
        path, _, fields = where.partition(":")
        texts += read_texts(Path(path), fields.split("+") if fields else ("text",))
    return texts


def _variants(precision: str, checkpoint: Checkpoint, weights: Weights | None) -> Iterator[tuple[str, Weights | None]]:
    """What a precision means: of degridded weights there are no stored codes, so they are made."""
    if weights is None or precision != "as-stored":
        yield precision, weights
        return
    on_grid = [tensor for tensor in checkpoint.tensors.values() if has_grid(tensor)]
    for grid in ("Q4_0", "Q4_1"):
        yield grid, regrid(weights, {t.name: grid if t.format.startswith("Q4") else "Q8_0" for t in on_grid})


def _files(args: argparse.Namespace, stack: ExitStack) -> dict[str, Scorer]:
    """Both engines on each file that is there."""
    name = SMOLLM2 if args.degrid is None else DEGRIDDED
    threads = len(os.sched_getaffinity(0))
    scorers: dict[str, Scorer] = {}
    for contender in IN_PROCESS:
        path = ROOT / "models" / name / contender.model
        if path.suffix != ".gguf" or not path.exists() or not is_installed(contender):
            continue
        if contender.engine == "llama.cpp":
            scorers[contender.name] = stack.enter_context(open_peer_scorer(contender, name, threads))
        else:
            config = EngineConfig(model=str(path), precision=contender.options["precision"], kernels=args.kernels)
            scorers[contender.name] = open_scorer(config, passage_tokens=args.passage_tokens)
    return scorers


def _floors(
    golden: ModelScorer, config: EngineConfig, passage_tokens: int, weights: Weights | None
) -> dict[str, Scorer]:
    reference = open_scorer(config, passage_tokens=passage_tokens, weights=weights, kernels=select_reference())
    return {"golden in chunks of 96": golden.in_chunks(96), "golden by the reference kernels": reference}


def _show(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done:,} of {total:,} tokens" + ("\n" if done == total else ""))
    sys.stderr.flush()


def _print(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
