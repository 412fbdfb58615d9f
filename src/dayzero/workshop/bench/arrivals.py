"""When an open loop sends. Pure and seeded.

Gaps between arrivals are drawn from a gamma distribution with mean 1 / rate and shape `burstiness`: their coefficient
of variation is 1 / sqrt(burstiness). 1 is a Poisson process, below 1 is burstier, above 1 more even.

Source: the parameter, and scaling to an exact total time, are those of vLLM's `bench serve`.
"""

import numpy as np


def arrival_times_s(count: int, *, rate_per_s: float, burstiness: float, seed: int) -> list[float]:
    """`count` increasing offsets from the start, all before count / rate: the rate asked for is the rate sent.

    One arrival more would fall on count / rate exactly. So scaled, a Poisson process is `count` uniform times, sorted.
    """
    assert count >= 1, count
    assert rate_per_s > 0, rate_per_s
    assert burstiness > 0, burstiness
    gaps = np.random.default_rng(seed).gamma(burstiness, size=count + 1)
    times = np.cumsum(gaps)
    return [float(t) for t in times[:-1] * (count / rate_per_s / times[-1])]
