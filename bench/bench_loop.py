"""How fast the engine's loop is without a model: scheduler, bookkeeping and events around FakeRunner.

    python bench/bench_loop.py [--requests 64] [--seconds 2] [--prompt 128] [--output 128]

Closed loop: a finished request is replaced at once. `step_cpu_s` is the loop's own CPU time for one step, and
`tokens_per_cpu_s` what it would do with a core of its own.
"""

import argparse
import time

from record import record

from dayzero.clock import SystemClock
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.engine.fake import build_fake_engine
from dayzero.wire.messages import Submit


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
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=64, help="running at once")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each repetition")
    parser.add_argument("--prompt", type=int, default=128, help="prompt tokens")
    parser.add_argument("--output", type=int, default=128, help="output tokens")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    results = [run(args) for _ in range(args.repeats)]
    samples = {name: [result[name] for result in results] for name in results[0]}
    settings = {"requests": args.requests, "input_tokens": args.prompt, "output_tokens": args.output}
    record("loop", samples, unit="tokens/s, s", settings=settings)


if __name__ == "__main__":
    main()
