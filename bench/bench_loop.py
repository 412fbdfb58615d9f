"""How fast the engine's loop is without a model: scheduler, bookkeeping and events around FakeRunner.

    python bench/bench_loop.py [--requests 64] [--seconds 2] [--prompt 128] [--output 128]

Closed loop: a finished request is replaced at once. Prints one JSON line per repetition and one with the median.
`tokens_per_cpu_s` is what it would be with a core of its own; `step_share_ratio` is the loop's CPU time as a share of a
model step of 40 ms.
"""

import argparse
import json
import statistics
import time

from dayzero.clock import SystemClock
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.engine.fake import build_fake_engine
from dayzero.wire.messages import Submit

MODEL_STEP_S = 0.040  # a decode step of 64 rows of a small model on two cores, for scale


def submit(number: int, args: argparse.Namespace) -> Submit:
    """A request whose prompt shares no prefix with another's."""
    prompt = [1 + (number * 7919 + i) % 40000 for i in range(args.prompt)]
    params = SamplingParams(max_tokens=args.output, seed=number)
    return Submit(request_id=number, prompt=prompt, params=params, salt="bench", policy_version="fake")


def run(args: argparse.Namespace) -> dict[str, float]:
    """One repetition on a fresh engine."""
    config = EngineConfig(model="fake", max_requests=args.requests, max_step_tokens=512, fake=FakeModel())
    engine, _ = build_fake_engine(config, SystemClock())
    for number in range(args.requests):
        engine.submit(submit(number, args))
    submitted, tokens, steps = args.requests, 0, 0
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    while (elapsed_s := time.perf_counter() - start_s) < args.seconds:
        report = engine.step()
        assert report is not None
        steps += 1
        for event in report.events:
            tokens += len(event.tokens)
            if event.finish is not None:
                engine.submit(submit(submitted, args))
                submitted += 1
    step_s = (time.process_time() - start_cpu_s) / steps
    return {
        "tokens_per_s": tokens / elapsed_s,
        "tokens_per_cpu_s": tokens / steps / step_s,
        "step_cpu_s": step_s,
        "step_share_ratio": step_s / MODEL_STEP_S,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=64, help="running at once")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each repetition")
    parser.add_argument("--prompt", type=int, default=128, help="prompt tokens")
    parser.add_argument("--output", type=int, default=128, help="output tokens")
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    results = []
    for number in range(args.repetitions):
        results.append(run(args))
        print(json.dumps({"bench": "loop", "repetition": number, "requests": args.requests, **results[-1]}))
    medians = {name: statistics.median(result[name] for result in results) for name in results[0]}
    print(json.dumps({"bench": "loop", "median_of": len(results), "requests": args.requests, **medians}))


if __name__ == "__main__":
    main()
