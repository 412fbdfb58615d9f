import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.errors import InternalError
from dayzero.gateway.errors import DeadlinePassed
from dayzero.gateway.stream import ChoiceStream, Delta, Echo, StreamRules
from tests.gateway.stand import EOS, byte_tokenizer

Shown = tuple[str, str | None, list[tuple[int, int]], int]


def collect(events: list[TokenEvent], rules: StreamRules, echo: Echo | None = None) -> Shown:
    """Text, finish, (token, offset) of what was scored, and tokens counted."""
    stream = ChoiceStream(0, byte_tokenizer(), rules, echo)
    deltas: list[Delta] = []
    for event in events:
        delta = stream.push(event)
        if delta is not None:
            deltas.append(delta)
        if stream.is_finished:
            break
    scored = [(entry.token, entry.offset) for delta in deltas for entry in delta.scored]
    finishes = [delta.finish for delta in deltas if delta.finish]
    assert len(finishes) <= 1
    return "".join(delta.text for delta in deltas), finishes[0] if finishes else None, scored, stream.num_tokens


def events_of(tokens: list[int], finish: FinishReason | None, *, cuts: list[int] | None = None) -> list[TokenEvent]:
    """The tokens, split at `cuts`; without any, one event for each token."""
    bounds = sorted({0, len(tokens), *(range(len(tokens)) if cuts is None else cuts)})
    parts = [tokens[a:b] for a, b in itertools.pairwise(bounds)] or [[]]
    return [
        TokenEvent(
            1,
            list(part),
            finish=finish if i == len(parts) - 1 else None,
            logprobs=[Logprob(token, -0.5, 1) for token in part],
        )
        for i, part in enumerate(parts)
    ]


@settings(derandomize=True, max_examples=300)
@given(
    text=st.text(alphabet="ab é漢🙂", max_size=12),
    stops=st.lists(st.text(alphabet="ab é漢", min_size=1, max_size=3), max_size=3),
    finish=st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]),
    scored=st.booleans(),
    data=st.data(),
)
def test_any_spread_of_tokens_over_events_gives_the_same_answer(
    text: str, stops: list[str], finish: FinishReason, scored: bool, data: st.DataObject
) -> None:
    tokens = [*text.encode(), *([EOS] if finish is FinishReason.STOP else [])]
    cuts = data.draw(st.lists(st.integers(0, len(tokens))))
    rules = StreamRules(stops=tuple(stops), scored=scored)
    assert collect(events_of(tokens, finish, cuts=cuts), rules) == collect(events_of(tokens, finish), rules)


@settings(derandomize=True, max_examples=300)
@given(
    text=st.text(alphabet="abé", max_size=12),
    stops=st.lists(st.text(alphabet="abé", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_text_is_cut_at_the_first_stop_string_and_scores_are_cut_with_it(text: str, stops: list[str]) -> None:
    rules = StreamRules(stops=tuple(stops), scored=True)
    shown, finish, scored, _ = collect(events_of(list(text.encode()), FinishReason.LENGTH), rules)
    cut = min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))
    assert shown == text[:cut]
    assert finish == ("stop" if cut < len(text) else "length")
    assert bytes(token for token, _ in scored).startswith(shown.encode())


def test_a_character_in_several_tokens_is_shown_when_it_is_complete() -> None:
    stream = ChoiceStream(0, byte_tokenizer(), StreamRules())
    deltas = [stream.push(TokenEvent(1, [byte])) for byte in "é".encode()]
    assert deltas[0] is None
    assert deltas[1] is not None
    assert deltas[1].text == "é"


def test_tokens_without_text_yet_are_reported_with_the_delta_that_shows_them() -> None:
    stream = ChoiceStream(0, byte_tokenizer(), StreamRules())
    shown = [stream.push(TokenEvent(1, [byte])) for byte in "aéb".encode()]
    assert [token for delta in shown if delta for token in delta.token_ids] == list("aéb".encode())


def test_a_character_that_is_never_completed_becomes_a_replacement_at_the_end() -> None:
    text, finish, _, _ = collect(events_of(list("é".encode()[:1]), FinishReason.LENGTH), StreamRules())
    assert (text, finish) == ("\ufffd", "length")


def test_the_end_of_sequence_token_counts_but_is_not_text() -> None:
    assert collect(events_of([104, 105, EOS], FinishReason.STOP), StreamRules(scored=True)) == (
        "hi",
        "stop",
        [(104, 0), (105, 1)],
        3,
    )


def test_the_end_of_sequence_token_is_scored_where_asked() -> None:
    _, _, scored, _ = collect(events_of([104, EOS], FinishReason.STOP), StreamRules(scored=True, score_end=True))
    assert scored == [(104, 0), (EOS, 1)]


def test_a_stop_token_is_text_where_asked() -> None:
    rules = StreamRules(show_stop=True, skip_special=False)
    assert collect(events_of([104, EOS], FinishReason.STOP), rules)[0] == "h<|eos|>"


def test_a_stop_string_is_text_where_asked() -> None:
    rules = StreamRules(stops=("END",), show_stop=True)
    assert collect(events_of(list(b"hiEND no"), FinishReason.LENGTH), rules)[:2] == ("hiEND", "stop")


def test_tokens_after_the_stop_string_do_not_count() -> None:
    rules = StreamRules(stops=("l",))
    assert collect(events_of(list(b"hello"), FinishReason.LENGTH, cuts=[]), rules)[3] == 3


def test_an_echo_comes_first_with_its_scores_and_shifts_the_offsets() -> None:
    event = TokenEvent(
        1,
        [33],
        finish=FinishReason.LENGTH,
        logprobs=[Logprob(33, -0.5, 1)],
        prompt_logprobs=[None, Logprob(105, -0.5, 1)],
    )
    text, _, scored, _ = collect([event], StreamRules(scored=True), Echo("hi", [104, 105], shows_special=True))
    assert (text, scored) == ("hi!", [(104, 0), (105, 1), (33, 2)])


@pytest.mark.parametrize(
    ("finish", "error"),
    [
        (FinishReason.ERROR, InternalError),
        (FinishReason.ABORT, InternalError),
        (FinishReason.TIMEOUT, DeadlinePassed),
    ],
)
def test_what_the_engine_says_went_wrong_is_raised(finish: FinishReason, error: type[Exception]) -> None:
    with pytest.raises(error):
        ChoiceStream(0, byte_tokenizer(), StreamRules()).push(TokenEvent(1, finish=finish, error="nan"))


def test_the_first_delta_says_what_was_cached_and_the_last_one_which_stop_string_ended_it() -> None:
    stream = ChoiceStream(0, byte_tokenizer(), StreamRules(stops=("x", "d")))
    events = [TokenEvent(1, list(b"a"), cached_tokens=3), TokenEvent(1, list(b"b")), TokenEvent(1, list(b"cde"))]
    deltas = [delta for event in events if (delta := stream.push(event)) is not None]
    assert [delta.cached_tokens for delta in deltas] == [3, None, None]
    assert [delta.stop for delta in deltas] == [None, None, "d"]


def test_an_output_that_ends_by_itself_names_no_stop_string() -> None:
    delta = ChoiceStream(0, byte_tokenizer(), StreamRules(stops=("x",))).push(events_of([EOS], FinishReason.STOP)[0])
    assert delta is not None
    assert (delta.finish, delta.stop) == ("stop", None)
