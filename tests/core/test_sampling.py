import math

import msgspec
import pytest

from dayzero.core.sampling import SamplingParams, check, check_prompt
from dayzero.errors import RequestError

VOCAB = 100


def params(**values: object) -> SamplingParams:
    return SamplingParams(**{"max_tokens": 8, "seed": 1, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("temperature", (0.0, 2.0), (-0.1, 2.1, math.nan, math.inf)),
        ("top_p", (1e-9, 1.0), (0.0, -1.0, 1.01, math.nan)),
        ("min_p", (0.0, 1.0), (-0.1, 1.1)),
        ("top_k", (0, 2**31 - 1), (-1, 2**31)),
        ("presence_penalty", (-2.0, 2.0), (-2.1, 2.1)),
        ("frequency_penalty", (-2.0, 2.0), (-2.1, math.inf)),
        ("repetition_penalty", (0.01, 100.0), (0.0, -1.0, math.nan)),
        ("seed", (0, 2**64 - 1), (-1, 2**64)),
        ("max_tokens", (1, 2**31 - 1), (0, -1, 2**31)),
        ("min_tokens", (0, 8), (-1, 9)),
        ("logprobs", (None, 0, 20), (-1, 21)),
        ("prompt_logprobs", (None, 0, 20), (-1, 21)),
        ("logit_bias", ({0: 1.0}, {99: -100.0}), ({100: 1.0}, {-1: 1.0}, {0: 101.0}, {0: math.nan})),
        ("stop_token_ids", ((0, 99),), ((100,), (-1,))),
        ("banned_tokens", ((0, 99),), ((100,), (-1,))),
        ("banned_until", (0, 9), (-1, 2**31)),
    ],
)
def test_each_field_is_bounded_and_named(field: str, good: tuple[object, ...], bad: tuple[object, ...]) -> None:
    for value in good:
        check(params(**{field: value}), VOCAB)
    for value in bad:
        with pytest.raises(RequestError, match=field) as caught:
            check(params(**{field: value}), VOCAB)
        assert caught.value.param == field


def test_a_request_for_prompt_logprobs_alone_may_generate_nothing() -> None:
    check(params(max_tokens=0, prompt_logprobs=1), VOCAB)


def test_parameters_survive_the_wire() -> None:
    sent = params(temperature=0.7, logit_bias={3: -1.5}, stop_token_ids=(1, 2), logprobs=0)
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=SamplingParams)
    assert received == sent


def test_a_prompt_has_tokens_and_only_those_of_the_model() -> None:
    check_prompt([0, VOCAB - 1], VOCAB)
    for prompt in ([], [-1], [0, VOCAB]):
        with pytest.raises(RequestError, match="prompt"):
            check_prompt(prompt, VOCAB)


@pytest.mark.parametrize(
    ("field", "value", "bounds"), [("max_tokens", 0, "1 to 2147483647"), ("temperature", 2.5, "0 to 2")]
)
def test_bounds_are_written_out(field: str, value: float, bounds: str) -> None:
    with pytest.raises(RequestError, match=rf"\(allowed: {bounds}\)"):
        check(params(**{field: value}), VOCAB)
