"""Cutting rows into buckets and segments."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.kernels.attention import KV_ALIGN, bucket, keys_seen, segments

windows = st.none() | st.integers(1, 2000)
requests = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 700)), max_size=6)  # first position, rows


@pytest.mark.parametrize("window", [None, 1, 32, 64, 1000])
def test_buckets_partition_the_positions(window):
    start = 0
    while start < 10_000:
        home = bucket(start, window)
        assert home.start == start
        assert home.stop > start
        assert bucket(home.stop - 1, window) == home
        start = home.stop


@given(st.integers(0, 200_000), windows)
def test_a_bucket_covers_its_position_and_all_that_the_position_reads(position, window):
    home = bucket(position, window)
    assert home.start <= position < home.stop
    first_read = 0 if window is None else max(0, position - window + 1)
    assert home.kv_start <= first_read
    assert (home.stop - home.kv_start) % KV_ALIGN == 0
    assert home.kv_start % KV_ALIGN == 0


@given(st.integers(0, 200_000), st.integers(1, 2000))
def test_a_bucket_reads_little_beyond_its_window(position, window):
    home = bucket(position, window)
    assert home.stop - home.kv_start <= (home.stop - home.start) + window + KV_ALIGN


@given(requests, windows)
@settings(derandomize=True, max_examples=300)
def test_segments_cover_each_row_once_in_order_and_stay_within_a_bucket(spans, window):
    query_starts = [0]
    for _, rows in spans:
        query_starts.append(query_starts[-1] + rows)
    next_row = 0
    for segment in segments(query_starts, [first for first, _ in spans], window):
        assert segment.row == next_row
        assert segment.length >= 1
        first, _ = spans[segment.request]
        assert segment.position == first + segment.row - query_starts[segment.request]
        assert segment.bucket == bucket(segment.position, window)
        assert segment.bucket == bucket(segment.position + segment.length - 1, window)
        next_row += segment.length
    assert next_row == query_starts[-1]


@given(st.integers(0, 3000), st.lists(st.integers(1, 300), min_size=1, max_size=6), windows)
@settings(derandomize=True, max_examples=200)
def test_the_bucket_of_a_position_is_the_same_for_any_chunking(first, chunks, window):
    total = sum(chunks)
    whole = {}
    for segment in segments([0, total], [first], window):
        whole |= {segment.position + i: segment.bucket for i in range(segment.length)}
    position = first
    for chunk in chunks:
        for segment in segments([0, chunk], [position], window):
            assert all(whole[segment.position + i] == segment.bucket for i in range(segment.length))
        position += chunk


@given(st.integers(0, 90), st.integers(0, 70), st.none() | st.integers(1, 90))
def test_a_row_sees_the_keys_before_it_and_its_own(place, rows, window):
    seen = keys_seen(place, rows, window)
    assert len(seen) == rows
    for own, keys in enumerate(seen, place):
        assert keys == [key for key in range(own + 1) if window is None or own - key < window]


@st.composite
def forests(draw):
    """The parent of each row, -1 for a root."""
    return [draw(st.integers(-1, i - 1)) for i in range(draw(st.integers(0, 64)))]


@given(st.integers(0, 90), st.integers(0, 5), forests(), st.none() | st.integers(1, 90))
@settings(derandomize=True, max_examples=200)
def test_a_row_of_a_forest_sees_what_is_before_the_forest_and_then_its_ancestors(place, before, parents, window):
    masks = []
    for i, parent in enumerate(parents):
        masks.append((masks[parent] if parent >= 0 else 0) | 1 << i)
    seen = keys_seen(place, before + len(parents), window, masks)
    for i in range(len(parents)):
        path, at = [], i
        while at >= 0:
            path.insert(0, place + before + at)
            at = parents[at]
        whole = [*range(place + before), *path]
        assert seen[before + i] == whole[-(window or len(whole)) :]
