"""What share of an engine's step is not its forward pass, in process, on the embedded model and native kernels.

    python bench/bench_gap.py [--requests 1 8 32] [--repeats 7]

Steps decode `requests` requests of 128 prompt tokens, greedily. `forward` is the replay of the recorded step and of the
head, `sampling` native code that makes tokens of logits, and `rest` all else: scheduling, packing, reading the step,
committing, reporting. As shares of the step they sum to 1. What overlap with the next step could win is at most
sampling and rest.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from record import record

from dayzero.checkpoint.locate import locate
from dayzero.clock import SystemClock
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig
from dayzero.engine.build import build_engine
from dayzero.engine.engine import Engine
from dayzero.wire.messages import Submit

IN, STEPS = 128, 64


class Watch:
    """Seconds that were spent within what it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            start_s = time.perf_counter()
            try:
                return call(*args)
            finally:
                self.seconds += time.perf_counter() - start_s

        return timed


def watch(engine: Engine) -> tuple[Watch, Watch]:
    """Of the forward pass and of sampling, where a native engine calls them."""
    forward, sampling = Watch(), Watch()
    model: Any = engine._runner._model  # type: ignore[attr-defined]
    for program in (model._body, model._head):
        program.run = forward.wrapped(program.run)
    vocabulary = model._sampler._vocabulary
    vocabulary.answer = sampling.wrapped(vocabulary.answer)
    return forward, sampling


def shares(engine: Engine, watches: tuple[Watch, Watch], requests: int, repeat: int, policy: str) -> dict[str, float]:
    """Of steps that decode all requests: prompts are computed before, and each request is aborted behind."""
    forward, sampling = watches
    ids = range(repeat * 1000, repeat * 1000 + requests)
    params = SamplingParams(max_tokens=IN + STEPS, temperature=0.0, ignore_eos=True, seed=0)
    for number in ids:
        prompt = [1000 + (number * 7919 + i * 31) % 39000 for i in range(IN)]
        engine.submit(Submit(request_id=number, prompt=prompt, params=params, salt="", policy_version=policy))
    decoding: set[int] = set()
    while len(decoding) < requests:
        report = engine.step()
        assert report is not None
        for event in report.events:
            assert event.tokens, event.error
            decoding.add(event.request_id)
    forward.seconds = sampling.seconds = 0.0
    steps_s = []
    for _ in range(STEPS):
        start_s = time.perf_counter()
        engine.step()
        steps_s.append(time.perf_counter() - start_s)
    whole_s = sum(steps_s)
    for number in ids:
        engine.abort(number)
    while engine.has_work:
        engine.step()
    rest_s = whole_s - forward.seconds - sampling.seconds
    return {
        "step_us": statistics.median(steps_s) * 1e6,
        "forward": forward.seconds / whole_s,
        "sampling": sampling.seconds / whole_s,
        "rest": rest_s / whole_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--precision", default="as-stored")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    path = str(locate(None, offline=True, progress=lambda *_: None))
    config = EngineConfig(
        model=path, kernels="native", precision=args.precision, threads=args.threads, prefix_cache=False
    )
    engine, spec = build_engine(config, SystemClock(), lambda *_: None)
    watches = watch(engine)
    shares(engine, watches, max(args.requests), 0, spec.policy_version)  # to warm up
    found: dict[int, list[dict[str, float]]] = {requests: [] for requests in args.requests}
    for repeat in range(args.repeats):
        for at, requests in enumerate(args.requests):
            found[requests].append(
                shares(engine, watches, requests, 1 + repeat * len(args.requests) + at, spec.policy_version)
            )
    for requests, repeats in found.items():
        samples = {name: [one[name] for one in repeats] for name in repeats[0]}
        # The measure and session name a line among those of its part (bench/stored.py).
        settings = {"measure": f"{requests} requests", "requests": requests, "precision": spec.precision}
        record("gap", samples, unit="us, share", settings={**settings, "input_tokens": IN, "threads": args.threads})


if __name__ == "__main__":
    main()
