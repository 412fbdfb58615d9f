"""Q, K and V of a step: rotated, normed and stored where the block tables say, and nowhere else."""

import pytest
import torch
from torch import Tensor

from dayzero.kernels import reference
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.kv_format import decode, encode, head_elements
from dayzero.kernels.native.backend import flat_step
from dayzero.kernels.native.recorder import GroupOf, Tape
from tests.kernels.native.replay import NUM_ROWS, Flat, Machine, Replay, assert_as_accurate, draw, replay, same_bits
from tests.kernels.native.stored import unpacked

HEADS = [
    HeadLayout(4, 4, 16),
    HeadLayout(3, 1, 48),
    HeadLayout(9, 3, 64),
    HeadLayout(2, 2, 80),
    HeadLayout(14, 2, 64),
    HeadLayout(4, 1, 256),
]
NUM_POSITIONS, NUM_BLOCKS, EPS = 700, 50, 1e-6
UNTOUCHED = 7
INF, NAN = float("inf"), float("nan")

by_heads = pytest.mark.parametrize("heads", HEADS, ids=lambda h: f"{h.num_heads}-{h.num_kv_heads}-{h.head_dim}")


class Writer:
    """The op, recorded over a pool of its own."""

    def __init__(
        self,
        machine: Machine,
        heads: HeadLayout,
        block_size: int = 16,
        has_norms: bool = False,
        kv_dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.heads, self.block_size = heads, block_size
        angles = torch.rand(NUM_POSITIONS, heads.head_dim // 2, generator=torch.Generator().manual_seed(1)) * 6
        self.rotary = (torch.cos(angles).repeat(1, 2), torch.cat([-torch.sin(angles), torch.sin(angles)], dim=1))
        weights = (draw(heads.head_dim, seed=1) + 1, draw(heads.head_dim, seed=2) + 1, EPS)
        self.norms = weights if has_norms else None
        shape = (NUM_BLOCKS, block_size, 2, heads.num_kv_heads, head_elements(heads.head_dim, kv_dtype))
        self.pool = torch.full(shape, UNTOUCHED, dtype=kv_dtype)
        tape = Tape()
        qkv = tape.symbol((heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim, "tokens")
        self.width = qkv.width
        out = tape.rope_and_write_kv(qkv, self.norms, self.rotary, self.pool, GroupOf(0))
        self._program: Replay = replay(machine, tape, [qkv], [out])

    def __call__(self, qkv: Tensor, step: Flat) -> Tensor:
        """Q [T, H * D]; K and V are in the pool."""
        self.pool.fill_(UNTOUCHED)
        return self._program(step, qkv)[0][:, : self.heads.num_heads * self.heads.head_dim]

    def expected(self, qkv: Tensor, positions: list[int], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K [T, G, D] and V in the dtype."""
        counts = [self.heads.num_heads, self.heads.num_kv_heads, self.heads.num_kv_heads]
        q, k, v = qkv.to(dtype).view(len(qkv), -1, self.heads.head_dim).split_with_sizes(counts, 1)
        if self.norms is not None:
            q, k = (
                x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight.to(dtype)
                for x, weight in zip((q, k), self.norms[:2], strict=True)
            )
        cos, sin = (table[positions][:, None].to(dtype) for table in self.rotary)
        q, k = (x * cos + x.roll(self.heads.head_dim // 2, -1) * sin for x in (q, k))
        return q.flatten(1), k, v


def one_request(rows: int, first: int, block_size: int) -> tuple[Flat, list[int], list[int]]:
    """A step, the positions of its rows and their slots; blocks run backwards."""
    table = list(range(NUM_BLOCKS - 1, 0, -1))[: -(-(first + rows) // block_size)]
    positions = list(range(first, first + rows))
    slots = [table[p // block_size] * block_size + p % block_size for p in positions]
    return flat_step([0] * rows, [], [0, rows], [first], [[table]], block_size), positions, slots


@by_heads
@pytest.mark.parametrize("block_size", [16, 32])
@pytest.mark.parametrize("has_norms", [False, True])
def test_heads_are_rotated_and_stored_as_in_the_reference(
    machine: Machine, heads: HeadLayout, block_size: int, has_norms: bool
) -> None:
    writer = Writer(machine, heads, block_size, has_norms)
    for rows, first in [(1, 0), (1, 77), (17, 9), (33, 31), (128, 100)]:
        qkv = draw(rows, writer.width)
        step, positions, slots = one_request(rows, first, block_size)
        q = writer(qkv, step)
        q32, _, _ = writer.expected(qkv, positions, torch.float32)
        q64, k64, v64 = writer.expected(qkv, positions, torch.float64)
        assert_as_accurate(q, q32, q64)
        k, v = (x.flatten(0, 1) for x in unpacked(writer.pool))
        assert ((k[slots].double() - k64).abs() <= 2**-8 * k64.abs() + 1e-6).all()
        assert torch.equal(v[slots], v64.bfloat16())
        others = torch.ones(len(k), dtype=torch.bool)
        others[slots] = False
        assert (k[others] == UNTOUCHED).all()
        assert (v[others] == UNTOUCHED).all()


def test_the_judge_of_these_tests_agrees_with_the_reference() -> None:
    x, cos, sin = draw(5, 3, 48), draw(5, 48, seed=1), draw(5, 48, seed=2)
    ours = x * cos[:, None] + x.roll(24, -1) * sin[:, None]
    assert torch.equal(ours, reference.rope(x, cos, sin))


@by_heads
@pytest.mark.parametrize("block_size", [16, 32])
def test_int8_codes_are_those_of_the_reference_and_their_scales_too(
    machine: Machine, heads: HeadLayout, block_size: int
) -> None:
    writer = Writer(machine, heads, block_size, kv_dtype=torch.int8)
    for rows, first in [(1, 0), (17, 9), (128, 100)]:
        qkv = draw(rows, writer.width)
        step, positions, slots = one_request(rows, first, block_size)
        writer(qkv, step)
        _, k64, v64 = writer.expected(qkv, positions, torch.float64)
        k, v = (x.flatten(0, 1) for x in unpacked(writer.pool))
        assert torch.equal(v[slots], encode(v64.float(), torch.int8))
        # K was rotated in float32, so a number on the border between two codes may have either.
        half_step = k64.abs().amax(-1, keepdim=True) / 254
        assert ((decode(k[slots]).double() - k64).abs() <= half_step * (1 + 1e-4)).all()
        others = torch.ones(len(k), dtype=torch.bool)
        others[slots] = False
        assert (k[others] == UNTOUCHED).all()
        assert (v[others] == UNTOUCHED).all()


def test_int8_codes_of_extreme_heads_are_those_of_the_reference(machine: Machine) -> None:
    """Nothing, next to nothing, subnormals, the largest, ties, and numbers that are not finite."""
    heads = HeadLayout(1, 8, 16)
    v = torch.zeros(8, 16)
    v[1, 3], v[2, :2], v[3, :2], v[4, :3] = -0.0, torch.tensor([1e-31, -1e-32]), torch.tensor([1e-40, 1e-45]), 3.4e38
    v[5, :4] = torch.tensor([127, 0.5, 1.5, -2.5])
    v[6, 5], v[7, 15] = INF, NAN
    writer = Writer(machine, heads, kv_dtype=torch.int8)
    step, _, slots = one_request(1, 0, 16)
    writer(torch.cat([torch.zeros(9 * 16), v.flatten()])[None], step)
    stored = unpacked(writer.pool)[1].flatten(0, 1)[slots][0]
    assert torch.equal(stored[:6], encode(v[:6], torch.int8))
    assert decode(stored[6:]).isnan().all()


@pytest.mark.parametrize("kv_dtype", [torch.bfloat16, torch.int8], ids=["bf16", "int8"])
@pytest.mark.parametrize("has_norms", [False, True])
def test_a_row_is_stored_with_the_same_bits_in_any_company(
    machine: Machine, has_norms: bool, kv_dtype: torch.dtype
) -> None:
    writer = Writer(machine, HEADS[2], has_norms=has_norms, kv_dtype=kv_dtype)
    qkv = draw(512, writer.width)
    together = writer(qkv, one_request(512, 0, 16)[0])
    pool = writer.pool.clone()
    for rows in NUM_ROWS:
        first = (rows * 37) % (513 - rows)
        step, _, slots = one_request(rows, first, 16)
        assert same_bits(writer(qkv[first : first + rows], step), together[first : first + rows])
        for some, all_of_them in zip(unpacked(writer.pool), unpacked(pool), strict=True):
            assert torch.equal(some.flatten(0, 1)[slots], all_of_them.flatten(0, 1)[slots])


def test_requests_write_their_own_blocks(machine: Machine) -> None:
    writer = Writer(machine, HEADS[2])
    qkv = draw(9, writer.width)
    tables = [[5, 3], [8], [2, 9]]
    step = flat_step([0] * 9, [], [0, 1, 4, 9], [20, 3, 14], [tables], 16)
    writer(qkv, step)
    positions = [20, 3, 4, 5, 14, 15, 16, 17, 18]
    slots = [3 * 16 + 4, 8 * 16 + 3, 8 * 16 + 4, 8 * 16 + 5, 2 * 16 + 14, 2 * 16 + 15, 9 * 16, 9 * 16 + 1, 9 * 16 + 2]
    v = unpacked(writer.pool)[1].flatten(0, 1)
    assert torch.equal(v[slots], writer.expected(qkv, positions, torch.float32)[2].bfloat16())


@pytest.mark.parametrize("poison", [INF, -INF, NAN])
@pytest.mark.parametrize("head", [4, 10, 13])  # of Q, of K, of V
def test_a_value_that_is_not_finite_stays_in_its_head(machine: Machine, poison: float, head: int) -> None:
    writer = Writer(machine, HEADS[2], has_norms=True)
    qkv = draw(6, writer.width)
    step, _, slots = one_request(6, 40, 16)
    clean_q, clean_pool = writer(qkv, step), writer.pool.clone()
    qkv.view(6, 15, 64)[3, head, 30] = poison
    q = writer(qkv, step)
    harmed = {4: q[3, 4 * 64 : 5 * 64], 10: unpacked(writer.pool)[0].flatten(0, 1)[slots[3], 1]}
    harmed[13] = unpacked(writer.pool)[1].flatten(0, 1)[slots[3], 1]
    assert not harmed[head].isfinite().all()
    num_harmed = int((~q.isfinite()).sum() + (~writer.pool.isfinite()).sum())
    assert num_harmed <= 64
    changed = (writer.pool != clean_pool).sum() + (q != clean_q).sum()
    assert changed <= 64


def test_values_keep_their_sign_their_subnormals_and_their_ties(machine: Machine) -> None:
    writer = Writer(machine, HEADS[0])
    v = torch.tensor([-0.0, 1e-40, -1e-39, 3.39e38, 3.4e38, 1.00390625, 1.01171875, INF, -INF, 1e-45] + [0.0] * 54)
    qkv = torch.cat([torch.zeros(128), v])[None]
    step, _, slots = one_request(1, 0, 16)
    writer(qkv, step)
    stored = unpacked(writer.pool)[1].flatten(0, 1)[slots].flatten()
    assert torch.equal(stored.view(torch.int16), v.bfloat16().view(torch.int16))
