"""What sampling costs 32 requests: `python bench/bench_sampled.py [--repeats 5] [--precision as-stored bf16]`.

Output tokens/s of 32 requests of 128 random tokens in and 128 out, at temperature 0.7 and top-p 0.95 against greedy, in
turns that begin with another one each time. The embedded model.
"""

import argparse
import random
import time

from record import record

from dayzero import LLM

REQUESTS, IN, OUT = 32, 128, 128
VARIANTS = {"greedy": {"temperature": 0.0}, "sampled": {"temperature": 0.7, "top_p": 0.95}}


def tokens_per_s(llm: LLM, seed: str, **options: float) -> float:
    """Of requests that share no prefix, with each other or with those of another seed."""
    draw = random.Random(seed)
    prompts = [draw.choices(range(1000, 40000), k=IN) for _ in range(REQUESTS)]
    start_s = time.perf_counter()
    llm.generate(prompt_token_ids=prompts, max_tokens=OUT, ignore_eos=True, **options)
    return REQUESTS * OUT / (time.perf_counter() - start_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", nargs="+", default=["as-stored", "bf16"])
    args = parser.parse_args()
    for precision in args.precision:
        llm = LLM(offline=True, precision=precision)
        samples: dict[str, list[float]] = {name: [] for name in VARIANTS}
        tokens_per_s(llm, "warm", **VARIANTS["sampled"])
        for repeat in range(args.repeats):
            for name in list(VARIANTS)[:: 1 if repeat % 2 else -1]:
                samples[name].append(tokens_per_s(llm, f"{name} {repeat}", **VARIANTS[name]))
        settings = {"precision": precision, "requests": REQUESTS, "input_tokens": IN, "output_tokens": OUT}
        record("sampled", samples, unit="tokens/s", settings={**settings, "threads": llm.spec.threads})


if __name__ == "__main__":
    main()
