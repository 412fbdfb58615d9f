"""The probe of heights, against calls whose borders are planted, and the slicing of rows."""

import pytest
import torch
import torch.nn.functional as F

from dayzero.kernels.rows import CANDIDATES, Heights, cancelling, elementwise_slices, probe


def planted(*borders):
    """A call whose rounding changes at these numbers of rows."""

    def apply(x):
        order = sum(x.shape[0] >= border for border in borders)
        halves = x[:, : x.shape[1] // 2].sum(-1, keepdim=True), x[:, x.shape[1] // 2 :].sum(-1, keepdim=True)
        return x.sum(-1, keepdim=True) if order % 2 == 0 else halves[0] + halves[1] + x[:, :1] * 1e-3

    return apply


@pytest.fixture
def rows():
    return torch.randn(128, 64, generator=torch.Generator().manual_seed(0))


def between(low, high):
    return Heights(tuple(height for height in CANDIDATES if low <= height <= high))


@pytest.mark.parametrize(
    ("borders", "expected"),
    [
        ((), between(1, 128)),
        ((2,), between(2, 128)),
        ((3,), between(4, 128)),
        ((16,), between(16, 128)),
        ((17,), Heights((16,))),  # 16 is low enough
        ((33,), between(1, 32)),
        ((2, 33), between(2, 32)),
        ((5, 64), between(8, 32)),
        ((3, 17), Heights((16,))),
        ((2, 3), Heights((1, *between(4, 128).allowed))),
        ((9, 12), between(1, 128)),  # no call has 9, 10 or 11 rows
    ],
)
def test_the_probe_finds_the_heights_that_agree(rows, borders, expected):
    assert probe(planted(*borders), rows, 128) == expected


def test_heights_stay_within_the_most_rows_allowed(rows):
    assert probe(planted(), rows, 32) == between(1, 32)


def test_a_call_that_depends_on_a_row_s_place_gets_one_height(rows):
    def apply(x):
        return x + torch.arange(len(x))[:, None]

    assert probe(apply, rows, 128) == Heights((16,))


@pytest.mark.parametrize("heights", [between(1, 128), between(4, 32), Heights((16,)), Heights((1, 4, 128))])
@pytest.mark.parametrize("num_rows", [0, 1, 3, 16, 70, 129, 512])
def test_slices_cover_all_rows_in_order_and_fit_a_height(heights, num_rows):
    row = 0
    for start, stop in heights.slices(num_rows):
        assert start == row
        assert heights.fit(stop - start) in heights.allowed
        assert heights.fit(stop - start) >= stop - start
        row = stop
    assert row == num_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("inner", [63, 64, 576])
def test_cancelling_products_sum_to_zero_exactly(dtype, inner):
    x, w = cancelling(8, inner, dtype, torch.Generator().manual_seed(inner))
    products = x.double()[:, None] * w.double()[None]
    pairs = products.sort(-1).values
    odd = inner % 2  # one term has no partner
    if not odd:
        assert torch.equal(pairs, -pairs.flip(-1))
    assert (products.sum(-1).abs() <= odd * products.abs().amax(-1) + 1e-9).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cancelling_inputs_show_another_order_of_additions(dtype):
    x, w = cancelling(8, 576, dtype, torch.Generator().manual_seed(1))
    order = torch.randperm(576, generator=torch.Generator().manual_seed(2))
    reordered = F.linear(x[:, order].contiguous(), w[:, order].contiguous())
    assert (F.linear(x, w) != reordered).float().mean() > 0.9


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("width", [7, 160, 1536, 1537, 4864, 20_000, 24_576, 40_000])
@pytest.mark.parametrize("num_rows", [0, 1, 2, 17, 511, 512])
def test_elementwise_slices_cover_all_rows_in_order(num_rows, width, threads):
    slices = list(elementwise_slices(num_rows, width, threads))
    assert [start for start, _ in slices] == [0, *(stop for _, stop in slices)][: len(slices)]
    assert all(start < stop for start, stop in slices)
    assert sum(stop - start for start, stop in slices) == num_rows


def test_a_width_that_threads_divide_into_whole_vectors_needs_no_slicing():
    assert list(elementwise_slices(511, 1536, 2)) == [(0, 511)]
    assert list(elementwise_slices(511, 4864, 1)) == [(0, 511)]


def test_a_part_never_ends_amid_a_vector():
    assert list(elementwise_slices(511, 160, 2)) == [(0, 510), (510, 511)]
