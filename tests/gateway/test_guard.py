import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.core.constraint import Constraint
from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.errors import ConfigError
from dayzero.gateway.guard import Collapsed, Guard, GuardPolicy, Thoughts, mode_of
from dayzero.wire.messages import Submit
from tests.gateway.stand import byte_tokenizer

ING, VERY = 259, 260
SPELT = byte_tokenizer(("ing", " very", "<think>", "</think>")).bytes_by_id(skip_special=False)
SENTENCE = list(b"and so we went home. ")
RETRY = GuardPolicy(mode="retry")
THINK, THOUGHT = 261, 262
SPELT_THOUGHTS = Thoughts(closing=list(b"</think>"))
THOUGHTS = Thoughts(begin=THINK, end=THOUGHT, closing=[THOUGHT])


def guard(
    policy: GuardPolicy = RETRY,
    *,
    constraint: Constraint | None = None,
    thoughts: Thoughts = SPELT_THOUGHTS,
    **params: Any,
) -> Guard:
    submit = Submit(
        request_id=1,
        prompt=[1],
        params=SamplingParams(**{"max_tokens": 1000, "seed": 7, "temperature": 0.0, **params}),
        salt="",
        policy_version="",
        constraint=constraint,
    )
    return Guard(policy, submit, SPELT, thoughts)


def events_of(
    tokens: Sequence[int], finish: FinishReason | None, cuts: Sequence[int] | None = None
) -> list[TokenEvent]:
    """The tokens, split at `cuts`; without any, one event for each."""
    bounds = sorted({0, len(tokens), *(range(len(tokens)) if cuts is None else cuts)})
    parts = [list(tokens[a:b]) for a, b in itertools.pairwise(bounds)] or [[]]
    return [
        TokenEvent(1, part, finish if i == len(parts) - 1 else None, [Logprob(t, -0.5, 1) for t in part])
        for i, part in enumerate(parts)
    ]


def shown_by(watch: Guard, events: Sequence[TokenEvent]) -> list[int]:
    """Tokens let through, up to a finding; their log-probs must be theirs."""
    shown: list[int] = []
    for event in events:
        out = watch.admit(event)
        if out is not None:
            assert [entry.token for entry in out.logprobs or ()] == out.tokens
            shown += out.tokens
        if watch.found is not None:
            break
    return shown


def test_an_honest_event_is_let_through_as_it_is() -> None:
    watch = guard()
    for event in events_of(SENTENCE, FinishReason.STOP):
        assert watch.admit(event) is event
    assert watch.report("stop") is None


def test_a_run_is_held_and_a_collapse_of_it_is_never_seen() -> None:
    watch = guard()
    assert shown_by(watch, events_of([65, *[ING] * 9], None)) == [65, ING]
    assert watch.unshown.tokens == [ING] * 3
    retry = watch.retry(is_reasoning=False)
    assert retry is not None
    assert (retry.submit.committed, retry.submit.attempt, retry.forced) == ([65, ING], 1, [])
    assert (retry.submit.params.banned_tokens, retry.submit.params.banned_until) == ((ING,), 2 + 32)


def test_a_run_that_breaks_is_let_through_whole() -> None:
    tokens = [65, *[VERY] * 11, 66]
    assert shown_by(guard(), events_of(tokens, None)) == tokens


def test_what_is_held_comes_out_when_the_output_ends() -> None:
    tokens = [65, ING, ING]
    assert shown_by(guard(), events_of(tokens, FinishReason.LENGTH)) == tokens


@pytest.mark.parametrize("finish", [FinishReason.LENGTH, FinishReason.STOP])
def test_an_output_that_ends_in_the_token_of_a_finding_ended_by_itself(finish: FinishReason) -> None:
    watch = guard()
    assert shown_by(watch, events_of([65, *[ING] * 4], finish)) == [65, *[ING] * 4]
    assert watch.found is None


@settings(derandomize=True, max_examples=200)
@given(
    tail=st.sampled_from(
        [[ING] * 6, [VERY] * 14, SENTENCE * 6, list(b"-") * 80, [ING, ING, 65, *[ING] * 5], [VERY] * 5]
    ),
    finish=st.sampled_from([FinishReason.LENGTH, FinishReason.STOP, None]),
    data=st.data(),
)
def test_nothing_depends_on_how_tokens_were_spread_over_events(
    tail: list[int], finish: FinishReason | None, data: st.DataObject
) -> None:
    tokens = [*b"Well, ", *tail]
    cuts = data.draw(st.lists(st.integers(0, len(tokens))))
    outcomes = []
    for events in (events_of(tokens, finish, cuts), events_of(tokens, finish)):
        watch = guard()
        shown = shown_by(watch, events)
        retry = None if watch.found is None else watch.retry(is_reasoning=False)
        outcomes.append((shown, watch.num_shown, retry, watch.report("length")))
    assert outcomes[0] == outcomes[1]


def test_copies_are_out_and_the_output_goes_on_behind_them() -> None:
    watch = guard()
    shown = shown_by(watch, events_of(SENTENCE * 9, None))
    assert 3 * len(SENTENCE) <= len(shown) <= 5 * len(SENTENCE)
    assert watch.unshown.tokens == []
    retry = watch.retry(is_reasoning=False)
    assert retry is not None
    assert retry.submit.committed == shown
    assert retry.submit.params.banned_tokens == ((SENTENCE * 9)[len(shown)], SENTENCE[0])


@pytest.mark.parametrize(("asked", "retried"), [(0.0, 0.8), (0.6, 0.8), (1.2, 1.4), (2.0, 2.0)])
def test_a_retry_is_warmer_with_the_same_seed_and_another_attempt(asked: float, retried: float) -> None:
    watch = guard(temperature=asked)
    for attempt in (1, 2):
        shown_by(watch, events_of([ING] * 9, None))
        retry = watch.retry(is_reasoning=False)
        assert retry is not None
        assert retry.submit.params.temperature == pytest.approx(retried)
        assert (retry.submit.params.seed, retry.submit.attempt) == (7, attempt)


def test_after_two_retries_the_output_ends_and_says_so() -> None:
    watch = guard()
    for is_left in (True, True, False):
        shown_by(watch, events_of([65, *[ING] * 9], None))
        assert (watch.retry(is_reasoning=False) is not None) == is_left
    assert watch.report("length") == Collapsed(tier=0, attempts=2, discarded_tokens=9, is_end=True)
    assert watch.report("stop") == Collapsed(tier=0, attempts=2, discarded_tokens=9, is_end=False)


def test_without_retries_the_output_ends_at_once() -> None:
    watch = guard(GuardPolicy(mode="stop"))
    shown_by(watch, events_of([65, *[ING] * 9], None))
    assert watch.retry(is_reasoning=True) is None
    assert watch.report("length") == Collapsed(tier=0, attempts=0, discarded_tokens=3, is_end=True)


def test_reasoning_is_ended_instead_and_its_sampling_stays() -> None:
    watch = guard()
    shown_by(watch, events_of([65, *[ING] * 9], None))
    retry = watch.retry(is_reasoning=True)
    assert retry is not None
    assert bytes(retry.forced) == b"</think>"
    assert retry.submit.committed == [65, ING, *b"</think>"]
    assert retry.submit.attempt == 1
    assert (retry.submit.params.temperature, retry.submit.params.banned_tokens) == (0.0, ())


def test_reasoning_without_room_for_its_end_ends_the_output() -> None:
    watch = guard(max_tokens=10)
    shown_by(watch, events_of([65, *[ING] * 5], None))
    assert watch.retry(is_reasoning=True) is None


def test_an_output_that_a_grammar_binds_needs_64_copies_and_nothing_is_forced_into_it() -> None:
    watch = guard(constraint=Constraint(grammar="start: /(ing)*/"))
    assert len(shown_by(watch, events_of([ING] * 200, None))) == 64
    retry = watch.retry(is_reasoning=True)
    assert retry is not None
    assert (retry.forced, retry.submit.constraint) == ([], Constraint(grammar="start: /(ing)*/"))


@pytest.mark.parametrize(
    ("before", "thoughts"),
    [([THINK, 65], THOUGHTS), ([65], Thoughts(starts=True, begin=THINK, end=THOUGHT, closing=[THOUGHT]))],
)
def test_what_is_thought_before_a_bound_answer_is_not_bound(before: list[int], thoughts: Thoughts) -> None:
    watch = guard(constraint=Constraint(grammar="start: /(ing)*/"), thoughts=thoughts)
    assert shown_by(watch, events_of([*before, *[ING] * 9], None)) == [*before, ING]
    retry = watch.retry(is_reasoning=True)
    assert retry is not None
    assert retry.submit.committed == [*before, ING, THOUGHT]
    assert len(shown_by(watch, events_of([ING] * 200, None))) == 64


def test_an_output_whose_calls_only_are_bound_is_watched_as_others_are() -> None:
    watch = guard(constraint=Constraint(grammar="start: /(ing)*/", after_tokens=(3,)))
    assert shown_by(watch, events_of([ING] * 200, None)) == [ING]


def test_a_prompts_log_probs_and_cached_tokens_are_told_once() -> None:
    watch = guard(prompt_logprobs=1)
    watch.admit(TokenEvent(1, [ING] * 4, cached_tokens=3, logprobs=[Logprob(ING, -0.5, 1)] * 4))
    retry = watch.retry(is_reasoning=False)
    assert retry is not None
    assert retry.submit.params.prompt_logprobs is None
    out = watch.admit(TokenEvent(1, [65], cached_tokens=3))
    assert out is not None
    assert (out.tokens, out.cached_tokens) == ([65], None)


def test_modes_have_names() -> None:
    assert [mode_of(name) for name in ("off", "stop", "retry")] == ["off", "stop", "retry"]
    with pytest.raises(ConfigError, match="known: off, stop, retry"):
        mode_of("on")
