"""What each measure asks of an engine, and what it makes of the times."""

from collections.abc import Sequence

import pytest

from bench.peers.measures import MEASURES, Prompter, left_out, warm_up


class LinearEngine:
    """Takes 1 ms for a prompt token that the call before did not start with, and 10 ms for a step of output."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[list[int]], int]] = []

    def generate(self, prompts: Sequence[Sequence[int]], output_tokens: int) -> float:
        before = self.calls[-1][0] if self.calls else []
        self.calls.append(([list(prompt) for prompt in prompts], output_tokens))
        computed = sum(len(prompt) - max((common(prompt, old) for old in before), default=0) for prompt in prompts)
        return computed * 0.001 + output_tokens * 0.010


def common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decode", 1 / 0.010),
        ("prefill", 1024 / (1.024 + 0.010)),
        ("concurrent-8", 8 * 128 / (8 * 0.128 + 1.280)),
        ("concurrent-32", 32 * 128 / (32 * 0.128 + 1.280)),
        ("cached", 0.064 + 0.010),
    ],
)
def test_a_measure_gives_what_its_definition_says(name: str, value: float) -> None:
    assert MEASURES[name].take(LinearEngine(), Prompter("seed")) == pytest.approx(value)


def test_the_requests_that_run_together_are_distinct() -> None:
    engine = LinearEngine()
    MEASURES["concurrent-32"].take(engine, Prompter("seed"))
    ((prompts, output_tokens),) = engine.calls
    assert (len({tuple(prompt[:16]) for prompt in prompts}), output_tokens) == (32, 128)


def test_one_seed_gives_each_engine_the_same_prompts_and_another_seed_others() -> None:
    assert Prompter("a").prompt(8) == Prompter("a").prompt(8) != Prompter("b").prompt(8)


def test_a_server_is_not_warmed_up_with_a_prompt_that_it_is_never_measured_with() -> None:
    engine = LinearEngine()
    warm_up(engine, Prompter("seed"), [1, 8], served=True)
    assert [(len(prompts), len(prompts[0])) for prompts, _ in engine.calls] == [(1, 128), (8, 128)]
    warm_up(engine, Prompter("seed"), [], served=False)
    assert len(engine.calls[-1][0][0]) == 1024


def test_left_out_is_who_cannot_be_the_best_of_its_kind() -> None:
    rates = {
        "dayzero int8": 100.0,
        "dayzero bf16": 70.0,
        "dayzero int8 http": 60.0,
        "x 8": 40.0,
        "y 8": 31.0,
        "z 8": 29.0,
        "x 8 http": 10.0,
    }
    assert left_out(rates, 0.75) == {"dayzero bf16", "z 8"}
    assert left_out(rates, 0.0) == set()
