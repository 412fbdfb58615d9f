"""Seeded rows that try to break a sampler: ties, infinities, huge spreads, and every parameter at its edges."""

import numpy as np
import torch
from numpy.typing import NDArray

from dayzero.core.sampling import SamplingParams
from dayzero.sampling.sampler import Row

Logits = NDArray[np.float32]

SHAPES = ("equal", "normal", "narrow", "wide", "huge", "half gone", "one left", "integers", "peaks", "exact shares")


def random_logits(rng: np.random.Generator, vocab_size: int) -> Logits:
    """One row [V]; most are rounded to bfloat16, as a model's are, which makes ties everywhere."""
    x = rng.standard_normal(vocab_size)
    shape = rng.choice(SHAPES)
    if shape == "equal":
        x[:] = 0.0
    elif shape in ("narrow", "wide", "huge"):
        x *= {"narrow": 0.01, "wide": 1e3, "huge": 1e30}[shape]
    elif shape == "half gone":
        x[rng.random(vocab_size) < 0.5] = -np.inf
    elif shape == "one left":
        x[:] = -np.inf
        x[rng.integers(vocab_size)] = 1.0
    elif shape == "integers":
        x = np.round(3 * x)
    elif shape == "peaks":
        x[rng.integers(0, vocab_size, 5)] += 20.0
    elif shape == "exact shares":
        x = np.log(rng.choice([0.5, 0.25, 0.25], vocab_size))
    if rng.random() < 0.05:
        x[rng.integers(vocab_size)] = rng.choice([np.nan, np.inf])
    if rng.random() < 0.02:
        x[:] = -np.inf
    row = torch.from_numpy(x.astype(np.float32))
    return (row.bfloat16().float() if rng.random() < 0.7 else row).numpy()


def random_row(rng: np.random.Generator, vocab_size: int) -> Row:
    def one_of(*values):
        return values[rng.integers(len(values))]

    def tokens(count):
        return [int(token) for token in rng.integers(0, vocab_size, count)]

    params = SamplingParams(
        max_tokens=100,
        seed=int(rng.integers(0, 2**64, dtype=np.uint64)),
        min_tokens=one_of(0, 0, 3, 20),
        temperature=one_of(0.0, 1.0, 0.7, 0.7, 1.5, 2.0, 1e-3, 1e-40, 1e-310),
        top_k=one_of(0, 0, 1, 5, 50, vocab_size, vocab_size + 5, 1000),
        top_p=one_of(1.0, 1.0, 0.95, 0.5, 0.75, 1e-9, 0.999999, 1.0 - float(rng.random())),
        min_p=one_of(0.0, 0.0, 0.05, 1.0, 1e-20),
        presence_penalty=one_of(0.0, 0.0, 1.5, -2.0),
        frequency_penalty=one_of(0.0, 0.0, 0.3, -2.0),
        repetition_penalty=one_of(1.0, 1.0, 1.2, 0.01, 100.0),
        logit_bias=one_of({}, {}, dict.fromkeys(tokens(3), one_of(-100.0, 100.0, 0.5))),
        stop_token_ids=tuple(tokens(one_of(0, 1, 3))),
        ignore_eos=one_of(True, False),
        banned_tokens=tuple(tokens(one_of(0, 1, 3))),
        banned_until=one_of(0, 3, 20),
    )
    return Row(params, tokens(one_of(0, 5, 30)), tokens(one_of(0, 4, 10)), one_of(0, 1, 7), one_of(0, 2), tokens(1))
