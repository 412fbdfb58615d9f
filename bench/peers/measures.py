"""What is measured, made of calls that complete prompts and take a time.

decode         (OUT - 1) / (seconds for OUT tokens - seconds for one), prompts of IN tokens: no prompt is counted
prefill        LONG / seconds for one token after an unseen prompt of LONG tokens
concurrent-N   N * OUT / seconds for all of N distinct prompts of IN tokens, prompts counted
cached         seconds for one token after a prompt of LONG tokens, the first SEEN of which came just before
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from bench.peers.contenders import OURS, SERVED

IN, OUT, LONG, SEEN = 128, 128, 1024, 960
TOKENS = range(1000, 40000)  # ordinary ones in every checkpoint that is measured


class Engine(Protocol):
    def generate(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> float:
        """Seconds to complete all prompts together."""


class Prompter:
    """Random prompts: no two share a prefix. The same seed gives each engine the same ones."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def prompt(self, length: int) -> list[int]:
        return self._random.choices(TOKENS, k=length)


@dataclass(frozen=True, slots=True)
class Measure:
    """
    served      servers take part, too
    keep_ratio  after the first round, contenders at less than this share of the best of their kind are left out of a
                rate: they would take most of the time, and cannot be the best
    """

    unit: str
    take: Callable[[Engine, Prompter], float]
    needs_prefix_cache: bool = False
    served: bool = False
    keep_ratio: float = 0.0


def decode(engine: Engine, prompter: Prompter) -> float:
    one_s = engine.generate([prompter.prompt(IN)], 1)
    return (OUT - 1) / (engine.generate([prompter.prompt(IN)], OUT) - one_s)


def prefill(engine: Engine, prompter: Prompter) -> float:
    return LONG / engine.generate([prompter.prompt(LONG)], 1)


def concurrent(count: int) -> Callable[[Engine, Prompter], float]:
    def take(engine: Engine, prompter: Prompter) -> float:
        return count * OUT / engine.generate([prompter.prompt(IN) for _ in range(count)], OUT)

    return take


def cached(engine: Engine, prompter: Prompter) -> float:
    first = prompter.prompt(LONG)
    engine.generate([first], 1)
    return engine.generate([first[:SEEN] + prompter.prompt(LONG - SEEN)], 1)


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "decode": Measure("tokens/s", decode),
        "prefill": Measure("tokens/s", prefill),
        "concurrent-8": Measure("tokens/s", concurrent(8), served=True, keep_ratio=0.75),
        "concurrent-32": Measure("tokens/s", concurrent(32), served=True, keep_ratio=0.75),
        "cached": Measure("s", cached, needs_prefix_cache=True),
    }
)


def warm_up(engine: Engine, prompter: Prompter, counts: Sequence[int], *, served: bool) -> None:
    """Whatever an engine does once for a number of requests and, where it is measured, for a long prompt."""
    for count in counts:
        engine.generate([prompter.prompt(IN) for _ in range(count)], 8)
    if not served:
        engine.generate([prompter.prompt(LONG)], 2)


def left_out(values: Mapping[str, float], keep_ratio: float) -> set[str]:
    """Those that cannot be the best of their kind: ours or not, in process or through HTTP. `values`: rates by name."""
    kinds = {name: (name.startswith(OURS), name.endswith(SERVED)) for name in values}
    best = {kind: max(value for name, value in values.items() if kinds[name] == kind) for kind in kinds.values()}
    return {name for name, value in values.items() if value < keep_ratio * best[kinds[name]]}
