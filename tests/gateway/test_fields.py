from typing import Any

import pytest

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.core.sampling import SamplingParams
from dayzero.errors import ContextTooLong, RequestError
from dayzero.gateway.config import Limits
from dayzero.gateway.fields import (
    GenerationFields,
    StreamOptions,
    check_text_size,
    resolve_max_tokens,
    sampling_params,
    terms_of,
)

DEFAULTS = GenerationDefaults(temperature=0.6, top_p=0.9, top_k=20, min_p=0.1, repetition_penalty=1.1)


def params(defaults: GenerationDefaults = DEFAULTS, **fields: Any) -> SamplingParams:
    given = GenerationFields(**fields)
    seed = terms_of(given, Limits()).seed
    return sampling_params(given, defaults, seed=seed, max_tokens=5, vocab_size=100, logprobs=None)


def test_the_checkpoints_defaults_stand_in_for_what_the_request_leaves_out() -> None:
    given = params()
    assert (given.temperature, given.top_p, given.top_k, given.min_p) == (0.6, 0.9, 20, 0.1)
    assert given.repetition_penalty == 1.1


def test_the_request_wins_over_the_checkpoint_even_with_a_zero() -> None:
    given = params(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, repetition_penalty=1.0)
    assert (given.temperature, given.top_p, given.top_k, given.min_p) == (0.0, 1.0, 0, 0.0)
    assert given.repetition_penalty == 1.0


def test_without_either_the_defaults_are_openais() -> None:
    given = params(GenerationDefaults())
    assert (given.temperature, given.top_p, given.top_k) == (1.0, 1.0, 0)


def test_a_top_k_of_minus_one_is_off() -> None:
    assert params(top_k=-1).top_k == 0


def test_a_seed_that_was_not_given_is_drawn() -> None:
    assert params().seed != params().seed


def test_a_negative_seed_is_the_unsigned_one_with_the_same_bits() -> None:
    assert params(seed=-1).seed == params(seed=2**64 - 1).seed == 2**64 - 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", 1.5),
        ("presence_penalty", 3.0),
        ("frequency_penalty", -3.0),
        ("repetition_penalty", 0.0),
        ("min_tokens", 6),
        ("min_tokens", -1),
        ("seed", -(2**63) - 1),
        ("seed", 2**64),
        ("logit_bias", {100: 1.0}),
        ("logit_bias", {1: 101.0}),
        ("stop_token_ids", [100]),
        ("stop_token_ids", [-1]),
    ],
)
def test_a_value_out_of_range_names_its_field(field: str, value: object) -> None:
    with pytest.raises(RequestError) as caught:
        params(**{field: value})
    assert caught.value.param == field


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": "x" * 257}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop_token_ids": [1] * 129}, "stop_token_ids"),
        ({"logit_bias": dict.fromkeys(range(1025), 1.0)}, "logit_bias"),
        ({"priority": 2**40}, "priority"),
        ({"stream_options": StreamOptions(include_usage=True)}, "stream_options"),
    ],
)
def test_a_value_out_of_bounds_names_its_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        terms_of(GenerationFields(**fields), Limits())
    assert caught.value.param == param


def test_max_tokens_that_were_not_given_are_what_fits() -> None:
    assert resolve_max_tokens(None, 100, prompt_tokens=30, context=60, param="p") == 30
    assert resolve_max_tokens(None, 20, prompt_tokens=30, context=60, param="p") == 20


def test_max_tokens_that_do_not_fit_are_refused_with_the_numbers() -> None:
    with pytest.raises(ContextTooLong, match=r"30 prompt tokens \+ 31 to generate \(limit: 60\)"):
        resolve_max_tokens(31, 100, prompt_tokens=30, context=60, param="p")


def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers() -> None:
    for asked, least in ((None, 1), (1, 1), (0, 0)):
        with pytest.raises(ContextTooLong, match=rf"61 prompt tokens \+ {least} to generate \(limit: 60\)"):
            resolve_max_tokens(asked, 100, prompt_tokens=61, context=60, param="p")


def test_a_full_context_without_output_is_fine() -> None:
    assert resolve_max_tokens(0, 100, prompt_tokens=60, context=60, param="p") == 0


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized() -> None:
    check_text_size(60 * 128, context=60, limits=Limits(), param="p")
    with pytest.raises(RequestError) as caught:
        check_text_size(60 * 128 + 1, context=60, limits=Limits(), param="p")
    assert caught.value.code == "context_length_exceeded"
