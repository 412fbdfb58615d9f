from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.workshop.bench.sse import MAX_EVENT_BYTES, Decoded, MalformedStream, StreamedError, decode, events
from dayzero.workshop.bench.timeline import Usage
from tests.workshop.bench.scripted_server import DONE, FINISH, ROLE, chat_chunk, event, usage

WHOLE = b"".join(
    [
        b": a comment\n\n",
        ROLE,
        chat_chunk("Hé"),
        b"event: message\nid: 7\n" + chat_chunk("llo"),
        FINISH,
        event({"choices": [], "usage": usage(9, 4, cached_tokens=8)}),
        DONE,
    ]
)


def decoded(reads):
    into = Decoded()
    decode(reads, into)
    return into


def test_an_event_belongs_to_the_read_that_completed_it():
    chunk = chat_chunk("a")
    got = decoded([(1.0, ROLE + chunk[:10]), (2.0, chunk[10:-1]), (3.0, chunk[-1:] + chat_chunk("b")), (4.0, FINISH)])
    assert got.outputs_s == [3.0, 3.0]
    assert got.end_s == 4.0
    assert got.finished


def test_only_chunks_that_carry_output_are_outputs():
    got = decoded([(1.0, WHOLE)])
    assert len(got.outputs_s) == 2
    assert "".join(got.text) == "Héllo"
    assert got.usage == Usage(prompt_tokens=9, output_tokens=4, cached_tokens=8)


@settings(derandomize=True, max_examples=200)
@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=30), windows=st.booleans())
def test_any_split_of_the_bytes_gives_the_same_stream(cuts, windows):
    data = WHOLE.replace(b"\n", b"\r\n") if windows else WHOLE
    borders = [0, *sorted(cuts), len(data)]
    reads = [(float(n), data[a:b]) for n, (a, b) in enumerate(pairwise(borders))]
    assert [e for _, e in events(reads)] == [e for _, e in events([(0.0, WHOLE)])]
    assert decoded(reads).text == ["Hé", "llo"]


def test_text_of_completions_and_reasoning_and_tool_calls_are_output():
    chunks = [
        {"choices": [{"text": "x"}]},
        {"choices": [{"delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"delta": {"reasoning": "hm"}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]},
        {"choices": [{"delta": {"content": None}}]},
    ]
    got = decoded([(float(n), event(chunk)) for n, chunk in enumerate(chunks)])
    assert got.outputs_s == [0.0, 1.0, 2.0, 3.0]
    assert "".join(got.text) == "x"


def test_the_end_is_the_last_output_if_that_comes_after_the_finish_reason():
    assert decoded([(1.0, FINISH), (2.0, chat_chunk("late"))]).end_s == 2.0


def test_a_stream_without_an_end_is_not_finished():
    assert not decoded([(1.0, chat_chunk("a"))]).finished


@pytest.mark.parametrize("bad", [b"data: {\n\n", b'data: {"choices": 3}\n\n', b"data: \xff\n\n"])
def test_a_malformed_chunk_keeps_what_came_before(bad):
    into = Decoded()
    with pytest.raises(MalformedStream):
        decode([(1.0, chat_chunk("a") + bad)], into)
    assert into.outputs_s == [1.0]


def test_an_event_that_never_ends_is_malformed():
    with pytest.raises(MalformedStream):
        list(events([(0.0, b"data: " + b"x" * MAX_EVENT_BYTES)]))


@pytest.mark.parametrize("error", [{"message": "boom", "type": "x"}, "boom"])
def test_an_error_in_the_stream_is_raised_with_its_message(error):
    with pytest.raises(StreamedError, match="boom"):
        decoded([(1.0, event({"error": error}))])
