import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.errors import RequestError
from dayzero.text.stop import StopMatcher


def run(stops: list[str], chunks: list[str], *, include_stop: bool = False) -> tuple[list[str], str | None]:
    matcher = StopMatcher(stops, include_stop=include_stop)
    shown = []
    for chunk in chunks:
        shown.append(matcher.push(chunk))
        assert matcher.released == sum(map(len, shown))
    shown.append(matcher.finish())
    assert matcher.released == sum(map(len, shown))
    return shown, matcher.matched


def whole(stops: list[str], text: str) -> tuple[str, str | None]:
    """The specification: the earliest start, and there the shortest."""
    for at in range(len(text)):
        for stop in sorted(stops, key=len):
            if text.startswith(stop, at):
                return text[:at], stop
    return text, None


def test_a_stop_string_across_chunks_is_cut_exactly():
    assert run(["\nUser:"], ["Hi\n", "Us", "er: more"]) == (["Hi", "", "", ""], "\nUser:")


def test_only_what_may_begin_a_stop_is_withheld():
    assert run(["<end>"], ["a <b", "> <en", "x"]) == (["a <b", "> ", "<enx", ""], None)


def test_withheld_text_is_released_at_the_end():
    assert run(["stop"], ["sto"]) == (["", "sto"], None)


def test_a_stop_inside_a_longer_one_waits_until_the_longer_one_fails():
    assert run(["abcd", "bc"], ["abc", "x"]) == (["", "a", ""], "bc")
    assert run(["abcd", "bc"], ["abc", "d"]) == (["", "", ""], "abcd")
    assert run(["abcd", "bc"], ["abc"]) == (["", "a"], "bc")


def test_of_two_that_start_together_the_first_complete_one_counts():
    assert run(["abc", "ab"], ["xab", "c"]) == (["x", "", ""], "ab")


def test_the_stop_string_can_be_kept():
    assert run(["END"], ["x E", "ND y"], include_stop=True) == (["x ", "END", ""], "END")


def test_nothing_is_shown_after_the_stop():
    matcher = StopMatcher(["."])
    assert (matcher.push("a.b"), matcher.is_stopped, matcher.push("c"), matcher.finish()) == ("a", True, "", "")


def test_without_stops_text_passes_through():
    assert run([], ["a", "b"]) == (["a", "b", ""], None)


def test_an_empty_stop_string_is_refused():
    with pytest.raises(RequestError, match="empty stop string"):
        StopMatcher(["a", ""])


letters = st.text(alphabet="ab]^\n", max_size=12)


@settings(derandomize=True, max_examples=500)
@given(st.lists(st.text(alphabet="ab]^\n", min_size=1, max_size=5), max_size=4), st.lists(letters, max_size=8))
def test_any_chunking_gives_what_a_search_of_the_whole_text_gives(stops, chunks):
    shown, matched = run(stops, chunks)
    assert ("".join(shown), matched) == whole(stops, "".join(chunks))
    kept, _ = run(stops, chunks, include_stop=True)
    assert "".join(kept) == "".join(shown) + (matched or "")


@settings(derandomize=True, max_examples=300)
@given(st.lists(st.text(alphabet="ab]", min_size=1, max_size=5), min_size=1, max_size=4), st.lists(letters, max_size=8))
def test_what_is_withheld_is_the_beginning_of_a_stop(stops, chunks):
    matcher = StopMatcher(stops)
    pushed = ""
    for chunk in chunks:
        pushed += chunk
        matcher.push(chunk)
        if matcher.is_stopped:
            return
        held = pushed[matcher.released :]
        assert held == "" or any(stop.startswith(held) and len(stop) > len(held) for stop in stops)
