"""Attention over paged KV: against float64, row by row for equal bits, and deaf to what a row may not see."""

import random
from collections.abc import Sequence

import pytest
import torch

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.kv_format import encode
from tests.kernels.native.replay import NUM_ROWS, Machine, assert_as_accurate, same_bits
from tests.kernels.native.stored import Reader, Span, Stored, packed, unpacked

pytestmark = pytest.mark.model  # a minute of attention

HEADS = [
    HeadLayout(4, 4, 16),
    HeadLayout(3, 1, 48),
    HeadLayout(9, 3, 64),
    HeadLayout(2, 2, 80),
    HeadLayout(14, 2, 64),
    HeadLayout(8, 2, 128),
    HeadLayout(4, 1, 256),
]
LENGTHS = [1, 15, 64, 70, 130, 300]
INF, NAN = float("inf"), float("nan")

by_heads = pytest.mark.parametrize("heads", HEADS, ids=lambda h: f"{h.num_heads}-{h.num_kv_heads}-{h.head_dim}")
BF16, INT8 = torch.bfloat16, torch.int8
by_kv_dtype = pytest.mark.parametrize("kv_dtype", [BF16, INT8], ids=["bf16", "int8"])
by_window_and_kv_dtype = pytest.mark.parametrize(
    ("window", "kv_dtype"),
    [*((window, BF16) for window in (None, 1, 16, 50, 64, 200)), (None, INT8), (50, INT8)],
    ids=lambda value: str(value).removeprefix("torch."),
)


def assert_accurate(stored: Stored, reader: Reader, spans: Sequence[Span], window: int | None = None) -> None:
    for span, out in zip(spans, reader(spans), strict=True):
        expected32 = stored.judge(span, window, torch.float32)
        assert_as_accurate(out, expected32, stored.judge(span, window, torch.float64))


@by_kv_dtype
def test_a_pool_can_be_packed_and_read_back(kv_dtype: torch.dtype) -> None:
    k, v = torch.randn(2, 3, 32, 2, 48).unbind(0)
    again = unpacked(packed(k, v, kv_dtype))
    assert torch.equal(again[0], encode(k, kv_dtype))
    assert torch.equal(again[1], encode(v, kv_dtype))


@by_heads
@by_window_and_kv_dtype
@pytest.mark.parametrize("block_size", [16, 32])
def test_attention_agrees_with_float64(
    machine: Machine, heads: HeadLayout, block_size: int, window: int | None, kv_dtype: torch.dtype
) -> None:
    stored = Stored(heads, LENGTHS, block_size, kv_dtype)
    reader = Reader(machine, stored, window)
    whole = [Span(request, 0, length) for request, length in enumerate(LENGTHS)]
    last = [Span(request, length - 1, 1) for request, length in enumerate(LENGTHS)]
    chunks = [Span(5, 37, 63), Span(4, 64, 17), Span(3, 63, 2), Span(2, 1, 33)]
    for spans in (whole, last, chunks, []):
        assert_accurate(stored, reader, spans, window)


@by_kv_dtype
def test_every_number_of_rows_agrees_with_float64(machine: Machine, kv_dtype: torch.dtype) -> None:
    stored = Stored(HEADS[2], [600], kv_dtype=kv_dtype)
    reader = Reader(machine, stored)
    for rows in NUM_ROWS:
        assert_accurate(stored, reader, [Span(0, 600 - rows - rows % 5, rows)])


@by_heads
@by_window_and_kv_dtype
def test_a_row_has_the_same_bits_alone_and_in_any_step(
    machine: Machine, heads: HeadLayout, window: int | None, kv_dtype: torch.dtype
) -> None:
    stored = Stored(heads, LENGTHS, kv_dtype=kv_dtype)
    reader = Reader(machine, stored, window)
    together = reader([Span(request, 0, length) for request, length in enumerate(LENGTHS)])
    choose = random.Random(0)
    for _ in range(2):
        computed = [0] * len(LENGTHS)
        while computed != LENGTHS:
            rows = [
                min(choose.choice([0, 1, 1, 2, 5, 33, 128]), length - done)
                for done, length in zip(computed, LENGTHS, strict=True)
            ]
            spans = [Span(i, computed[i], count) for i, count in enumerate(rows) if count]
            choose.shuffle(spans)
            for span, out in zip(spans, reader(spans), strict=True):
                assert same_bits(out, together[span.request][span.first : span.first + span.rows]), span
                computed[span.request] += span.rows


@by_window_and_kv_dtype
def test_neither_blocks_nor_threads_change_a_bit(machine: Machine, window: int | None, kv_dtype: torch.dtype) -> None:
    alone = Machine(machine.native, machine.instruction_set, machine.native.ThreadPool(1, 50))
    spans = [Span(5, 100, 200), Span(4, 129, 1), Span(3, 0, 70)]
    expected = Reader(alone, Stored(HEADS[2], LENGTHS, kv_dtype=kv_dtype), window)(spans)
    for block_size in (16, 32, 64):
        stored = Stored(HEADS[2], LENGTHS, block_size, kv_dtype)
        stored.tables = [table[::-1] for table in stored.tables]
        for out, one in zip(Reader(machine, stored, window)(spans), expected, strict=True):
            assert same_bits(out, one)


@pytest.mark.parametrize("window", [None, 30, 600])
@pytest.mark.parametrize("heads", [HEADS[0], HEADS[2]], ids=lambda h: f"{h.num_heads}-{h.num_kv_heads}")
@by_kv_dtype
def test_keys_of_several_parts_agree_with_float64_and_give_a_row_the_same_bits_however_they_are_shared(
    machine: Machine, heads: HeadLayout, window: int | None, kv_dtype: torch.dtype
) -> None:
    """One row alone is split among threads, by parts of 512 keys; a row in company is not."""
    stored = Stored(heads, [1300, *[20] * 16], kv_dtype=kv_dtype)
    reader = Reader(machine, stored, window)
    company = [Span(request, 19, 1) for request in range(1, 17)]
    whole = Span(0, 0, 1300)
    together = reader([whole])[0]
    expected32 = stored.judge(whole, window, torch.float32)
    assert_as_accurate(together, expected32, stored.judge(whole, window, torch.float64))
    for first, rows in [(511, 1), (512, 1), (1023, 2), (1024, 1), (1100, 33), (1299, 1)]:
        span = Span(0, first, rows)
        for spans in ([span], [span, *company]):
            assert same_bits(reader(spans)[0], together[first : first + rows]), (span, len(spans))


@by_heads
@pytest.mark.parametrize("window", [1, 16, 50, 100])
@by_kv_dtype
def test_blocks_that_left_the_window_are_not_read(
    machine: Machine, heads: HeadLayout, window: int, kv_dtype: torch.dtype
) -> None:
    stored, spans = Stored(heads, [300], kv_dtype=kv_dtype), [Span(0, 250, 40)]
    expected = Reader(machine, stored, window)(spans)[0]
    left = (250 - window + 1) // stored.block_size
    stored.k[0][: left * stored.block_size] = NAN
    stored.v[0][: left * stored.block_size] = NAN
    reader = Reader(machine, stored, window)
    stored.tables[0][:left] = [0] * left
    assert same_bits(reader(spans)[0], expected)


@pytest.mark.parametrize("scale", [0.001, 1.0, 30.0])
def test_any_scale_and_scores_of_any_size_agree_with_float64(machine: Machine, scale: float) -> None:
    stored = Stored(HEADS[2], [150])
    span = Span(0, 100, 50)
    out = Reader(machine, stored, scale=scale)([span])[0]
    expected32, judge = (stored.judge(span, None, dtype, scale) for dtype in (torch.float32, torch.float64))
    assert_as_accurate(out, expected32, judge)


def test_keys_of_equal_score_share_a_row_equally(machine: Machine) -> None:
    stored = Stored(HEADS[2], [200])
    for k in stored.k:
        k[:] = 0
    stored.v[0][:] = torch.arange(200).view(200, 1, 1) % 8
    out = Reader(machine, stored)([Span(0, 0, 200)])[0]
    expected = (torch.arange(200) % 8).double().cumsum(0) / torch.arange(1, 201)
    torch.testing.assert_close(out.double(), expected[:, None].expand(200, out.shape[1]), rtol=1e-6, atol=0)


# -- hostile values: only those who see them are harmed ----------------------------------------------------------------

COMPANY = [Span(4, 60, 70), Span(3, 69, 1), Span(5, 10, 100)]


@pytest.mark.parametrize("poison", [INF, -INF, NAN])
def test_a_query_that_is_not_finite_harms_its_own_row_and_head_only(machine: Machine, poison: float) -> None:
    stored = Stored(HEADS[2], LENGTHS)
    reader = Reader(machine, stored)
    clean = reader(COMPANY)
    stored.q[4][100, 5, 3] = poison
    out = reader(COMPANY)
    harmed = torch.zeros(70, 9, 64, dtype=torch.bool)
    harmed[40, 5] = True
    harmed = harmed.flatten(1)
    assert not out[0][harmed].isfinite().any()
    assert same_bits(out[0][~harmed], clean[0][~harmed])
    assert same_bits(out[1], clean[1])
    assert same_bits(out[2], clean[2])


@pytest.mark.parametrize("poison", [INF, -INF, NAN])
@pytest.mark.parametrize("window", [None, 20])
@by_kv_dtype
def test_a_key_that_is_not_finite_harms_only_rows_that_see_it(
    machine: Machine, poison: float, window: int | None, kv_dtype: torch.dtype
) -> None:
    stored = Stored(HEADS[2], LENGTHS, kv_dtype=kv_dtype)
    clean = Reader(machine, stored, window)(COMPANY)
    stored.k[4][100, 1] = poison
    out = Reader(machine, stored, window)(COMPANY)
    rows = torch.arange(60, 130)
    sees = (rows >= 100) & (rows < 100 + (window or 1000))
    assert not out[0][sees].view(-1, 9, 64)[:, 3:6].isfinite().any()
    assert same_bits(out[0][~sees], clean[0][~sees])
    assert same_bits(out[1], clean[1])
    assert same_bits(out[2], clean[2])


@pytest.mark.parametrize("poison", [INF, -INF, NAN])
@pytest.mark.parametrize("window", [None, 20])
@by_kv_dtype
def test_a_value_that_is_not_finite_harms_only_its_feature_of_rows_that_see_it(
    machine: Machine, poison: float, window: int | None, kv_dtype: torch.dtype
) -> None:
    """All features, where they share a scale."""
    stored = Stored(HEADS[2], LENGTHS, kv_dtype=kv_dtype)
    clean = Reader(machine, stored, window)(COMPANY)
    stored.v[4][101, 1, 7] = poison
    out = Reader(machine, stored, window)(COMPANY)
    rows = torch.arange(60, 130)
    sees = (rows >= 101) & (rows < 101 + (window or 1000))
    harmed = torch.zeros(70, 9, 64, dtype=torch.bool)
    harmed[sees, 3:6, slice(None) if kv_dtype is INT8 else slice(7, 8)] = True
    harmed = harmed.flatten(1)
    assert not out[0][harmed].isfinite().any()
    assert same_bits(out[0][~harmed], clean[0][~harmed])
    assert same_bits(out[1], clean[1])
    assert same_bits(out[2], clean[2])


@by_kv_dtype
def test_rows_before_a_poisoned_token_keep_their_bits_in_every_chunk(machine: Machine, kv_dtype: torch.dtype) -> None:
    stored = Stored(HEADS[2], [700], kv_dtype=kv_dtype)
    clean = Reader(machine, stored)([Span(0, 0, 700)])[0]
    stored.k[0][650:], stored.v[0][650:] = NAN, NAN
    reader = Reader(machine, stored)
    for first, rows in [(0, 700), (0, 651), (620, 31), (645, 8), (628, 64), (649, 33)]:
        (out,) = reader([Span(0, first, rows)])
        sound = max(0, 650 - first)
        assert same_bits(out[:sound], clean[first : first + sound])
        assert not out[sound:].isfinite().any()


def test_a_sum_that_vanishes_is_0_without_a_sign_in_any_company(machine: Machine) -> None:
    """A weight of 1e-35 times a value of -1e-20 rounds to -0, and one of 0 times an unseen value would make it 0."""
    stored = Stored(HEADS[0], [40])
    stored.q[0][:], stored.k[0][:] = 1, -80 / 16
    stored.k[0][0], stored.v[0][0] = 0, 0
    stored.v[0][1:20], stored.v[0][20:] = -1e-20, 1
    reader = Reader(machine, stored, scale=1.0)
    alone, together = reader([Span(0, 19, 1)])[0], reader([Span(0, 0, 40)])[0]
    assert same_bits(alone, torch.zeros(1, 64))
    assert same_bits(together[19:20], alone)
