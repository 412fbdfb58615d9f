"""torch's kernels as we call them: against the references, and row by row for equal bits.

Inputs of the invariance tests cancel, so that a row's result is the rounding of its additions and another order shows.
"""

import functools
import itertools
import random

import pytest
import torch

from dayzero.kernels import onednn, reference
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.ops import OPS
from dayzero.kernels.registry import Kernels, select
from dayzero.kernels.rows import cancelling

pytestmark = pytest.mark.model

DTYPES = [torch.float32, torch.bfloat16]
BLOCK_SIZE = 16
NUM_ROWS = (*range(1, 18), 31, 32, 33, 63, 64, 65, 127, 128, 129, 512)
SMOLLM2 = [(576, 960), (576, 576), (576, 3072), (1536, 576)]  # K, N of its products
QWEN_HALF_B = [(896, 1152), (896, 896), (896, 9728), (4864, 896)]
WIDE_HEAD = (576, onednn.WIDE + 512)
HEADS = [HeadLayout(9, 3, 64), HeadLayout(14, 2, 64), HeadLayout(4, 1, 256), HeadLayout(4, 4, 16), HeadLayout(1, 1, 80)]
SMALL_HEADS = HeadLayout(4, 2, 16)

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "bfloat16"])
by_heads = pytest.mark.parametrize("heads", HEADS, ids=lambda h: f"{h.num_heads}-{h.num_kv_heads}-{h.head_dim}")
any_rows = pytest.mark.parametrize("rows", [0, 1, 2, 15, 33, 130])


@functools.cache
def kernels_of(dtype: torch.dtype, heads: HeadLayout = SMALL_HEADS) -> Kernels:
    return select(dtype, heads)


def draw(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def assert_close(name: str, out: torch.Tensor, expected: torch.Tensor) -> None:
    """Within the error that the op declares."""
    assert out.shape == expected.shape
    assert out.dtype == expected.dtype
    if expected.numel():
        tolerance = next(op for op in OPS if op.name == name).relative_error[str(expected.dtype).split(".")[1]]
        assert (out.float() - expected.float()).abs().max() <= tolerance * expected.float().abs().max()


@pytest.fixture
def threads():
    """Set the number of torch's threads, and put it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# -- against the references --------------------------------------------------------------------------------------------


@by_dtype
@any_rows
@pytest.mark.parametrize(("inner", "features"), [(1, 1), (16, 48), (65, 33), (576, 100)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear_agrees_with_its_reference(dtype, rows, inner, features, has_bias):
    kernels = kernels_of(dtype)
    x, w = draw(rows, inner, dtype=dtype), draw(features, inner, dtype=dtype)
    bias = draw(features, dtype=dtype) if has_bias else None
    assert_close("linear", kernels.linear(x, kernels.prepare_linear(w), bias), reference.linear(x, w, bias))


@by_dtype
@any_rows
@pytest.mark.parametrize("width", [1, 7, 96, 576])
def test_ops_on_rows_agree_with_their_references(dtype, rows, width):
    kernels = kernels_of(dtype)
    x, gate_up, weight = draw(rows, width, dtype=dtype), draw(rows, 2 * width, dtype=dtype), draw(width, dtype=dtype)
    tokens = torch.arange(rows) % 5
    table = draw(5, width, dtype=dtype)
    assert_close("rms_norm", kernels.rms_norm(x, weight, 1e-5), reference.rms_norm(x, weight, 1e-5))
    factor = weight.float()  # gemma's weights
    assert_close("rms_norm", kernels.rms_norm(x, factor, 1e-5), reference.rms_norm(x, factor, 1e-5))
    assert_close("silu_mul", kernels.silu_mul(gate_up), reference.silu_mul(gate_up))
    assert_close("gelu_mul", kernels.gelu_mul(gate_up), reference.gelu_mul(gate_up))
    assert_close("embedding", kernels.embedding(tokens, table), reference.embedding(tokens, table))
    bias = draw(width + 1, dtype=dtype)[1:]
    ours, theirs = kernels.layer_norm(x, weight, bias, 1e-5), reference.layer_norm(x, weight, bias, 1e-5)
    assert_close("layer_norm", ours, theirs)
    assert_close("gelu", kernels.gelu(x), reference.gelu(x))


@by_dtype
@pytest.mark.parametrize("heads", [HeadLayout(12, 12, 32, is_causal=False), HeadLayout(3, 3, 20, is_causal=False)])
@pytest.mark.parametrize("lengths", [[], [1], [3, 70, 1, 513, 2]])
def test_span_attention_agrees_with_its_reference(dtype, heads, lengths):
    starts = [0, *itertools.accumulate(lengths)]
    qkv = draw(starts[-1], 3 * heads.num_heads * heads.head_dim, dtype=dtype)
    found = kernels_of(dtype, heads).span_attention(qkv, starts, heads.num_heads)
    assert_close("span_attention", found, reference.span_attention(qkv, starts, heads.num_heads))


@by_dtype
@any_rows
@by_heads
def test_rope_and_write_kv_agree_with_their_references(dtype, rows, heads):
    x = draw(rows, heads.num_heads, heads.head_dim, dtype=dtype)
    cos, sin = (draw(rows, heads.head_dim, dtype=torch.float32) + i for i in range(2))
    assert_close("rope_and_write_kv", onednn.rope(x, cos, sin), reference.rope(x, cos, sin))
    kv = draw(rows, 2, heads.num_kv_heads, heads.head_dim, dtype=dtype)
    slots = torch.randperm(160, generator=torch.Generator().manual_seed(0))[:rows]
    ours, theirs = (torch.zeros(10, BLOCK_SIZE, 2, heads.num_kv_heads, heads.head_dim, dtype=dtype) for _ in range(2))
    onednn.write_kv(ours, kv, slots)
    reference.write_kv(theirs, kv, slots)
    assert torch.equal(ours, theirs)


@by_dtype
@by_heads
@pytest.mark.parametrize("window", [None, 1, 40])
@pytest.mark.parametrize("spans", [[], [(0, 1)], [(3, 70), (500, 1), (0, 2), (63, 1), (511, 3), (64, 0)]])
def test_attention_agrees_with_its_reference(dtype, heads, window, spans):
    kernels = kernels_of(dtype, heads)
    pool = draw(1 + 40 * len(spans), BLOCK_SIZE, 2, heads.num_kv_heads, heads.head_dim, dtype=dtype)
    pool[0] = 0
    tables = [list(range(1 + 40 * i, 41 + 40 * i)) for i in range(len(spans))]
    starts = [0]
    for _, rows in spans:
        starts.append(starts[-1] + rows)
    q = draw(starts[-1], heads.num_heads, heads.head_dim, dtype=dtype)
    firsts = [first for first, _ in spans]
    plan = kernels.plan_attention(starts, firsts, tables, BLOCK_SIZE, window)
    expected = reference.paged_attention(q, pool, starts, firsts, tables, scale=0.3, window=window)
    assert_close("paged_attention", kernels.paged_attention(q, pool, plan, 0.3), expected)


# -- row invariance ----------------------------------------------------------------------------------------------------


@by_dtype
@pytest.mark.parametrize(("inner", "features"), [*SMOLLM2, *QWEN_HALF_B, WIDE_HEAD])
def test_linear_gives_a_row_the_same_bits_in_any_number_of_rows(dtype, inner, features):
    kernels = kernels_of(dtype)
    x, w = cancelling(512, inner, dtype, torch.Generator().manual_seed(inner + features))
    weight = kernels.prepare_linear(w.repeat(-(-features // 64), 1)[:features].contiguous())
    bias = draw(features, dtype=dtype) * 1e-6  # as small as the rounding, or it would hide it
    most = 130 if features > onednn.WIDE else 512
    whole = kernels.linear(x[:most], weight, bias)
    assert whole.count_nonzero() > whole.numel() / 2
    for rows in (n for n in NUM_ROWS if n <= most):
        start = min(rows % 3 * 5, most - rows)
        part = kernels.linear(x[start : start + rows], weight, bias)
        assert torch.equal(part, whole[start : start + rows]), (rows, start)


@by_dtype
@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [100, 160, 1536, 4864])
def test_ops_on_rows_give_a_row_the_same_bits_in_any_number_of_rows(threads, dtype, num_threads, width):
    threads(num_threads)
    kernels = kernels_of(dtype)
    x, weight = draw(512, 2 * width, dtype=dtype), draw(2 * width, dtype=dtype)
    ops = {
        "silu_mul": kernels.silu_mul,
        "gelu_mul": kernels.gelu_mul,
        "gelu": kernels.gelu,
        "layer_norm": lambda part: kernels.layer_norm(part, weight, weight, 1e-5),
        "rms_norm": lambda part: kernels.rms_norm(part, weight, 1e-5),
        "rms_norm by a factor": lambda part: kernels.rms_norm(part, weight.float(), 1e-5),
    }
    for name, op in ops.items():
        alone = torch.cat([op(x[i : i + 1]) for i in range(512)])
        for rows in NUM_ROWS:
            assert torch.equal(op(x[-rows:]), alone[-rows:]), (name, rows)


@by_dtype
@by_heads
@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
def test_rope_gives_a_row_the_same_bits_in_any_number_of_rows(threads, dtype, heads, num_threads):
    threads(num_threads)
    x = draw(512, heads.num_heads, heads.head_dim, dtype=dtype)
    cos, sin = (draw(512, heads.head_dim, dtype=torch.float32) + i for i in range(2))
    alone = torch.cat([onednn.rope(x[i : i + 1], cos[i : i + 1], sin[i : i + 1]) for i in range(512)])
    for rows in NUM_ROWS:
        assert torch.equal(onednn.rope(x[-rows:], cos[-rows:], sin[-rows:]), alone[-rows:]), rows


@by_dtype
@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
@pytest.mark.parametrize("head_dim", [20, 32, 64])
def test_span_attention_gives_a_request_the_same_bits_alone_and_in_any_step(threads, dtype, num_threads, head_dim):
    threads(num_threads)
    num_heads, lengths = 3, [1, 2, 5, 31, 32, 33, 64, 100, 257, 512]
    texts = [draw(length, 3 * num_heads * head_dim, dtype=dtype) for length in lengths]
    alone = [onednn.span_attention(text, [0, len(text)], num_heads) for text in texts]
    shuffle = random.Random(head_dim)
    for _ in range(5):
        order = shuffle.choices(range(len(texts)), k=12)
        starts = [0, *itertools.accumulate(lengths[i] for i in order)]
        found = onednn.span_attention(torch.cat([texts[i] for i in order]), starts, num_heads)
        for i, (start, stop) in zip(order, itertools.pairwise(starts), strict=True):
            assert torch.equal(found[start:stop], alone[i]), lengths[i]


LENGTHS = (2080, 700, 90, 33)  # of the requests below, across every size of bucket and key blocks that a window masks


class Stored:
    """Requests whose KV is in a pool, and queries at each of their positions.

    Within 16 positions keys come in equal pairs whose values are opposite: what rows at their ends see sums to zero.
    """

    def __init__(self, heads: HeadLayout, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(heads.num_heads)
        counts = [-(-length // BLOCK_SIZE) for length in LENGTHS]
        order = (1 + torch.randperm(sum(counts), generator=generator)).tolist()
        self.tables = [[order.pop() for _ in range(count)] for count in counts]
        shape = (1 + sum(counts), BLOCK_SIZE // 2, heads.num_kv_heads, heads.head_dim)
        half_k, half_v = (torch.randn(shape, generator=generator) for _ in range(2))
        half_v *= 100
        kv = torch.stack([torch.cat([half_k, half_k], dim=1), torch.cat([half_v, -half_v], dim=1)], dim=2)
        self.pool = kv[:, torch.randperm(BLOCK_SIZE, generator=generator)].to(dtype)
        self.pool[0] = 0
        self.queries = [
            torch.randn(length, heads.num_heads, heads.head_dim, generator=generator).to(dtype) for length in LENGTHS
        ]

    def attend(self, kernels: Kernels, spans: list[tuple[int, int, int]], window: int | None) -> list[torch.Tensor]:
        """What each span (request, first position, rows) reads, all in one step."""
        starts = [0]
        for _, _, rows in spans:
            starts.append(starts[-1] + rows)
        tables = [self.tables[request] for request, _, _ in spans]
        plan = kernels.plan_attention(starts, [first for _, first, _ in spans], tables, BLOCK_SIZE, window)
        q = torch.cat([self.queries[request][first : first + rows] for request, first, rows in spans])
        return list(kernels.paged_attention(q, self.pool, plan).split([rows for _, _, rows in spans]))


@functools.cache
def stored_of(dtype: torch.dtype, heads: HeadLayout) -> Stored:
    return Stored(heads, dtype)


@by_dtype
@by_heads
@pytest.mark.parametrize("window", [None, 32, 500])
def test_attention_gives_a_row_the_same_bits_alone_and_in_any_step(dtype, heads, window):
    kernels, stored = kernels_of(dtype, heads), stored_of(dtype, heads)
    choose = random.Random(0)
    checked = [sorted({*range(max(0, length - 40), length), *range(15, length, 80)}) for length in LENGTHS]
    alone = [
        {position: stored.attend(kernels, [(request, position, 1)], window)[0] for position in positions}
        for request, positions in enumerate(checked)
    ]
    for _ in range(3):
        computed = [0] * len(LENGTHS)
        while any(done < length for done, length in zip(computed, LENGTHS, strict=True)):
            spans = []
            for request, length in enumerate(LENGTHS):
                rows = min(choose.choice([0, 1, 1, 2, 5, 33, 128, 600]), length - computed[request])
                if rows:
                    spans.append((request, computed[request], rows))
                    computed[request] += rows
            if not spans:
                continue
            for (request, first, rows), out in zip(spans, stored.attend(kernels, spans, window), strict=True):
                for position in checked[request]:
                    if first <= position < first + rows:
                        row = position - first
                        assert torch.equal(out[row : row + 1], alone[request][position]), (request, position, spans)


@by_dtype
@by_heads
@pytest.mark.parametrize("window", [32, 100])
def test_attention_reads_no_block_before_its_window(dtype, heads, window):
    kernels, stored = kernels_of(dtype, heads), stored_of(dtype, heads)
    expected = stored.attend(kernels, [(1, 650, 40)], window)[0]
    table = list(stored.tables[1])
    left = (650 - window + 1) // BLOCK_SIZE
    stored.tables[1] = [0] * left + table[left:]
    try:
        assert torch.equal(stored.attend(kernels, [(1, 650, 40)], window)[0], expected)
    finally:
        stored.tables[1] = table


@by_dtype
def test_attention_reads_no_block_beyond_its_last_row(dtype):
    kernels, stored = kernels_of(dtype, HEADS[0]), Stored(HEADS[0], dtype)
    expected = stored.attend(kernels, [(1, 600, 8)], None)[0]
    stored.pool[stored.tables[1][608 // BLOCK_SIZE :]] = float("nan")
    assert torch.equal(stored.attend(kernels, [(1, 600, 8)], None)[0], expected)


@by_dtype
def test_the_probe_of_attention_finds_a_height_that_fits_its_tiles(dtype):
    for heads in HEADS:
        least = onednn.probe_min_rows(heads, dtype)
        assert 1 <= least <= onednn.TILE_ROWS
