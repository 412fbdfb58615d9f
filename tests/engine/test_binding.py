"""Grammars on an engine without weights, over a vocabulary of single bytes."""

import threading

import llguidance as lg
import pytest
from msgspec.structs import replace

from dayzero.clock import SystemClock
from dayzero.core.constraint import Constraint
from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.engine.binding import FAULT, Binder
from dayzero.engine.engine import Engine
from dayzero.engine.fake import build_fake_engine
from dayzero.grammar.answer_constraint import answer_constraint
from dayzero.grammar.formats.hermes import HERMES
from dayzero.grammar.matcher import TokenTable
from dayzero.grammar.wanted import ChoiceWanted
from dayzero.wire.messages import Submit
from tests.gateway.stand import EOS, byte_tokenizer

ABC = lg.LLMatcher.grammar_from_regex("[ab]{3}c")
Said = tuple[bytes, FinishReason | None, str | None]


def engine(*, knows_tokenizer: bool = True) -> Engine:
    model = FakeModel(vocab_size=260, eos_token_ids=(EOS,))
    made, _ = build_fake_engine(EngineConfig(model="fake", fake=model, max_requests=4), SystemClock())
    if knows_tokenizer:
        made.learn(byte_tokenizer().to_json())
    return made


def submit(number: int, constraint: Constraint | None, *, seed: int = 1, committed: bytes = b"") -> Submit:
    params = SamplingParams(max_tokens=24, seed=seed)
    return Submit(
        request_id=number,
        prompt=[65, 66],
        params=params,
        salt="",
        policy_version="fake",
        constraint=constraint,
        committed=list(committed),
    )


def run(made: Engine, *submits: Submit) -> dict[int, Said]:
    for one in submits:
        made.submit(one)
    tokens: dict[int, list[int]] = {one.request_id: [] for one in submits}
    ends: dict[int, tuple[FinishReason, str | None]] = {}
    while made.has_work:
        report = made.step()
        for event in report.events if report is not None else ():
            tokens[event.request_id] += event.tokens
            if event.finish is not None:
                assert event.request_id not in ends, "two terminal events"
                ends[event.request_id] = event.finish, event.error
    return {number: (bytes(t for t in said if t < 256), *ends[number]) for number, said in tokens.items()}


def test_what_nothing_has_switched_on_yet_waits_for_no_thread() -> None:
    binder = Binder(260, (EOS,))
    binder.learn(byte_tokenizer().to_json())
    binding = binder.bind(Constraint(grammar=ABC, after_tokens=(7,), repeats=True, banned=(9,)), [1, 2])
    assert binding.is_ready
    assert binding.allowed is not None
    assert not binding.allowed[0] >> 9 & 1
    assert binding.allowed[0] >> 8 & 1


def test_an_output_follows_its_grammar_to_its_end() -> None:
    seen = set()
    for seed in range(8):
        text, finish, _ = run(engine(), submit(1, Constraint(grammar=ABC), seed=seed))[1]
        assert finish is FinishReason.STOP
        assert len(text) == 4
        assert text[:3].strip(b"ab") == b""
        assert text[3:] == b"c"
        seen.add(text)
    assert len(seen) > 1


def test_an_output_does_not_depend_on_its_companions() -> None:
    alone = [run(engine(), submit(n, Constraint(grammar=ABC), seed=n))[n] for n in range(6)]
    free = submit(9, None, seed=9)
    together = run(engine(), free, *(submit(n, Constraint(grammar=ABC), seed=n) for n in range(6)))
    assert [together[n] for n in range(6)] == alone
    assert together[9] == run(engine(), free)[9]


def test_a_request_resumes_within_its_grammar() -> None:
    """B56: a matcher that had been ahead of its output could not go on."""
    whole, _, _ = run(engine(), submit(1, Constraint(grammar=ABC)))[1]
    rest, finish, _ = run(engine(), submit(1, Constraint(grammar=ABC), committed=whole[:2]))[1]
    assert whole[:2] + rest == whole
    assert finish is FinishReason.STOP


def test_a_grammar_that_is_none_ends_its_request_and_no_other() -> None:
    """B56: the stream hung, or all requests ended."""
    said = run(engine(), submit(1, Constraint(grammar="start: missing")), submit(2, Constraint(grammar=ABC)))
    assert said[1][1] is FinishReason.GRAMMAR
    assert said[2][1] is FinishReason.STOP


@pytest.mark.parametrize("grammar", ["", ABC])
def test_a_banned_token_is_never_drawn(grammar: str) -> None:
    for seed in range(8):
        text, _, _ = run(engine(), submit(1, Constraint(grammar=grammar, banned=(ord("a"),)), seed=seed))[1]
        assert b"a" not in text


def test_bans_alone_need_no_tokenizer_and_keep_nobody_waiting() -> None:
    made = engine(knows_tokenizer=False)
    made.submit(submit(1, Constraint(banned=(*range(255), *range(256, 260)))))
    for _ in range(3):  # a token a step: there is nothing that it could sit out a step for
        report = made.step()
        assert report is not None
        assert [event.tokens for event in report.events] == [[255]]


def test_a_grammar_that_wants_a_banned_token_is_the_clients_fault() -> None:
    said = run(engine(), submit(1, Constraint(grammar='start: "xay"', banned=(ord("a"),))))
    assert said[1][1] is FinishReason.GRAMMAR


def test_a_trigger_switches_a_grammar_on_and_its_end_switches_it_off() -> None:
    every_byte = tuple(range(256))
    constraint = Constraint(grammar=ABC, after_tokens=every_byte, repeats=True, banned=(EOS,))
    text, finish, _ = run(engine(), submit(1, constraint))[1]
    assert finish is FinishReason.LENGTH
    for start in range(0, 20, 5):  # any byte, then what the grammar says
        assert text[start + 1 : start + 4].strip(b"ab") == b""
        assert text[start + 4 : start + 5] == b"c"


def test_a_request_that_is_aborted_while_its_grammar_is_built_leaves_nothing() -> None:
    made = engine()
    made.submit(submit(1, Constraint(grammar=ABC)))
    made.abort(1)
    report = made.step()
    assert report is not None
    assert [event.finish for event in report.events] == [FinishReason.ABORT]
    assert not made.has_work


def test_a_constraint_needs_a_tokenizer_and_no_other_rule_about_the_end() -> None:
    assert run(engine(knows_tokenizer=False), submit(1, Constraint(grammar=ABC)))[1][1] is FinishReason.ERROR
    free = submit(1, Constraint(grammar=ABC))
    for params in (
        SamplingParams(max_tokens=9, seed=1, ignore_eos=True),
        SamplingParams(max_tokens=9, seed=1, min_tokens=2),
    ):
        refused = Submit(
            request_id=1, prompt=free.prompt, params=params, salt="", policy_version="fake", constraint=free.constraint
        )
        _, finish, error = run(engine(), refused)[1]
        assert finish is FinishReason.ERROR
        assert error is not None
        assert "beside a grammar" in error


class Panic(BaseException):
    """What a library in Rust raises."""


class PanickingBinder(Binder):
    @property
    def table(self) -> TokenTable:
        raise Panic


def test_a_panic_of_the_library_breaks_its_request_and_keeps_nobody_waiting() -> None:
    binder = PanickingBinder(260, (EOS,))
    binder.learn(byte_tokenizer().to_json())
    binding = binder.bind(Constraint(grammar=ABC), [])
    assert binding.wait(10.0)
    assert binding.broken == FAULT


@pytest.mark.parametrize(("expression", "said"), [("[ab]{3}c", b"bbbc"), ("a{3}c", b"aaac")])
def test_a_ban_acts_within_a_grammar_unless_that_leaves_nothing_else(expression: str, said: bytes) -> None:
    one = submit(1, Constraint(grammar=lg.LLMatcher.grammar_from_regex(expression)))
    banned = replace(one, params=replace(one.params, banned_tokens=(ord("a"),), banned_until=9))
    assert run(engine(), banned)[1][:2] == (said, FinishReason.STOP)


@pytest.mark.parametrize("starts", [True, False])
def test_thoughts_that_were_ended_from_outside_are_followed_by_a_bound_answer(starts: bool) -> None:
    words = ("<think>", "</think>")
    begin, end = 259, 260
    bound = answer_constraint(
        HERMES,
        (),
        mode="none",
        parallel=True,
        wanted=ChoiceWanted(("yes",)),
        starts_in_reasoning=starts,
        token_ids={"<think>": begin, "</think>": end},
        eos_token_ids=(EOS,),
    )
    made, _ = build_fake_engine(
        EngineConfig(model="fake", fake=FakeModel(vocab_size=261, eos_token_ids=(EOS,))), SystemClock()
    )
    made.learn(byte_tokenizer(words).to_json())
    thought = [*([] if starts else [begin]), *b"hm, ing", end]
    text, *end_of_it = run(made, replace(submit(1, bound), committed=thought))[1]
    assert (text.strip(), *end_of_it) == (b"yes", FinishReason.STOP, None)


def assert_is_set(event: threading.Event) -> None:
    assert event.wait(60)


def test_a_poisoned_mask_lets_nothing_through_before_it_is_ready_and_once_it_was_drawn_by() -> None:
    binder, built = Binder(260, (EOS,), poisoned=True), threading.Event()
    binder.learn(byte_tokenizer().to_json())
    binder.build(lambda: assert_is_set(built))
    binding = binder.bind(Constraint(grammar=ABC), [])
    assert binding.allowed is not None
    assert not binding.allowed.any()
    built.set()
    assert binding.wait(60)
    drawn_by = binding.allowed
    assert drawn_by.any()
    binding.advance([ord("a")])
    assert not drawn_by.any()
    assert binding.wait(60)
    assert binding.allowed.any()
    binding.drop()
    assert not binding.allowed.any()


def test_a_token_that_no_mask_binds_is_free_once_that_is_known_poisoned_or_not() -> None:
    for poisoned in (False, True):
        binder = Binder(260, (EOS,), poisoned=poisoned)
        binder.learn(byte_tokenizer().to_json())
        binding = binder.bind(Constraint(grammar=ABC, after_tokens=(7,), repeats=True), [])
        assert binding.wait(60)
        assert binding.allowed is None
