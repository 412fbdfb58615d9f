"""Whether the calls of an answer are those that a question of the function calling leaderboard wants. Pure.

As the leaderboard's own checker: text is compared without case, blanks and punctuation, numbers by value, and an
argument may be absent where leaving it out is among its choices.

Source: "AST evaluation" of BFCL (Patil et al., gorilla.cs.berkeley.edu, 2024).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from bench.suites.calls import OMITTED
from bench.suites.cases import Json

_IGNORED = str.maketrans("'", '"', " ,./-_*^")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was made. `arguments` None: they are no JSON object."""

    name: str
    arguments: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Share:
    """Of so many cases, and Wilson's 95 % interval."""

    hits: int
    count: int

    def __str__(self) -> str:
        if not self.count:
            return "none"
        low, high = wilson(self.hits, self.count)
        return f"{100 * self.hits / self.count:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def is_correct(calls: Sequence[Call], answers: Sequence[tuple[str, Mapping[str, Sequence[Json]]]]) -> bool:
    """Whether each wanted call was made, in any order, and no other."""
    if len(calls) != len(answers) or len(calls) > 8:
        return False
    fitting = [[_fits(call, name, wanted) for name, wanted in answers] for call in calls]
    return any(
        all(row[i] for row, i in zip(fitting, order, strict=True)) for order in permutations(range(len(answers)))
    )


def wilson(hits: int, count: int) -> tuple[float, float]:
    z = 1.96
    share, spread = hits / count, z * z / count
    middle = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return (middle - half) / (1 + spread), (middle + half) / (1 + spread)


def difference(one: Sequence[bool], other: Sequence[bool]) -> tuple[float, float, float]:
    """Mean of the difference over the same cases, and its 95 % bootstrap interval."""
    paired = np.array(one, dtype=float) - np.array(other, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(paired), (4000, len(paired)))
    low, high = np.quantile(paired[picks].mean(axis=1), (0.025, 0.975))
    return float(paired.mean()), float(low), float(high)


def _fits(call: Call, name: str, wanted: Mapping[str, Sequence[Json]]) -> bool:
    if call.name != name or call.arguments is None:
        return False
    return _fits_object(call.arguments, wanted)


def _fits_object(value: Mapping[str, Json], wanted: Mapping[str, Sequence[Json]]) -> bool:
    if not value.keys() <= wanted.keys():
        return False
    return all(
        any(_is_same(value[name], choice) for choice in choices)
        if name in value
        else not choices or any(choice in OMITTED for choice in choices if not isinstance(choice, list | dict))
        for name, choices in wanted.items()
    )


def _is_same(value: Json, choice: Json) -> bool:
    if isinstance(choice, dict):
        choices = {name: inner if isinstance(inner, list) else [inner] for name, inner in choice.items()}
        return isinstance(value, dict) and _fits_object(value, choices)
    if isinstance(choice, list):
        is_list = isinstance(value, list) and len(value) == len(choice)
        return is_list and all(_is_same(a, b) for a, b in zip(value, choice, strict=True))
    if isinstance(choice, str):
        return isinstance(value, str) and _bare(value) == _bare(choice)
    if isinstance(choice, bool) or isinstance(value, bool):
        return value is choice
    return bool(value == choice)


def _bare(text: str) -> str:
    return text.lower().translate(_IGNORED)
