"""What a step may have beside its rows: keys that were dropped, biases of keys, and forests of drafts."""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from dayzero.kernels import reference
from dayzero.kernels.attention import HeadLayout, keys_seen
from dayzero.kernels.kv_format import decode, encode
from dayzero.kernels.native.backend import Sections, flat_step
from dayzero.kernels.native.recorder import TOKENS, GroupOf, Plan, Tape
from tests.kernels.native.replay import Machine, assert_as_accurate, draw, replay, same_bits
from tests.kernels.native.stored import packed

pytestmark = pytest.mark.model

HEADS = [HeadLayout(4, 4, 16), HeadLayout(9, 3, 64), HeadLayout(8, 2, 128)]
SIZE = 16
INF, NAN = float("inf"), float("nan")
BF16, INT8 = torch.bfloat16, torch.int8

by_heads = pytest.mark.parametrize("heads", HEADS, ids=lambda h: f"{h.num_heads}-{h.num_kv_heads}-{h.head_dim}")
by_kv_dtype = pytest.mark.parametrize("kv_dtype", [BF16, INT8], ids=["bf16", "int8"])
by_window = pytest.mark.parametrize("window", [None, 3, 70])


@dataclass
class Asked:
    """One request of a step: what its blocks hold, and queries of its last rows.

    k, v     [places, G, D], the keys of the step's own rows at the end
    q        [rows, H, D]
    tree     masks of the last rows
    biases   [places, G], of which the first num_biased count
    dropped  positions before the rows that have no place
    """

    k: Tensor
    v: Tensor
    q: Tensor
    tree: Sequence[int] = ()
    biases: Tensor | None = None
    num_biased: int = 0
    dropped: int = 0

    @property
    def place(self) -> int:
        """Of the first row's key."""
        return len(self.k) - len(self.q)


def asked(heads: HeadLayout, places: int, rows: int, seed: int = 0, tree: Sequence[int] = ()) -> Asked:
    generator = torch.Generator().manual_seed(seed)
    k, v = torch.randn(2, places, heads.num_kv_heads, heads.head_dim, generator=generator).unbind(0)
    return Asked(k, v, torch.randn(rows, heads.num_heads, heads.head_dim, generator=generator) * 2, tree)


class Attention:
    """The op, over a pool made for what it is asked. Whatever nobody has written is NaN."""

    def __init__(self, machine: Machine, heads: HeadLayout, kv_dtype: torch.dtype, window: int | None = None) -> None:
        self._machine, self._heads, self._kv_dtype, self.window = machine, heads, kv_dtype, window

    def __call__(self, *requests: Asked, has_sections: bool = True) -> list[Tensor]:
        """[rows, H * D] of each, computed in one step."""
        heads = self._heads
        counts = [-(-len(one.k) // SIZE) for one in requests]
        free = list(range(1, 1 + sum(counts)))
        random.Random(0).shuffle(free)
        tables = [[free.pop() for _ in range(count)] for count in counts]
        shape = ((1 + sum(counts)) * SIZE, heads.num_kv_heads)
        k, v = (torch.full((*shape, heads.head_dim), NAN) for _ in range(2))
        biases = torch.full(shape, NAN)
        for one, table in zip(requests, tables, strict=True):
            slots = torch.tensor([block * SIZE + i for block in table for i in range(SIZE)])[: len(one.k)]
            k[slots], v[slots] = one.k, one.v
            if one.biases is not None:
                biases[slots[: one.num_biased]] = one.biases[: one.num_biased]
        blocks = (-1, SIZE, heads.num_kv_heads)
        pool = packed(k.view(*blocks, heads.head_dim), v.view(*blocks, heads.head_dim), self._kv_dtype)
        tape = Tape()
        qkv = tape.symbol((heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim, "tokens")
        out = tape.paged_attention(
            qkv, pool, Plan(0, self.window), biases_BGS=biases.view(blocks).transpose(1, 2).contiguous()
        )
        starts = [0, *itertools.accumulate(len(one.q) for one in requests)]
        sections = Sections(
            dropped=[[one.dropped for one in requests]],
            biased=[[one.num_biased for one in requests]],
            trees=[one.tree for one in requests],
        )
        step = flat_step(
            [0] * starts[-1],
            [],
            starts,
            [one.place + one.dropped for one in requests],
            [tables],
            SIZE,
            *([sections] if has_sections else []),
        )
        q = torch.cat([one.q.flatten(1) for one in requests])
        beside = torch.full((len(q), qkv.width - q.shape[1]), NAN)
        (rows,) = replay(self._machine, tape, [qkv], [out])(step, torch.cat([q, beside], dim=1))
        return list(rows.split([len(one.q) for one in requests]))

    def judge(self, one: Asked, dtype: torch.dtype) -> Tensor:
        """[rows, H * D], row by row from the definition."""
        Q = self._heads.queries_per_kv
        k, v = (decode(encode(x, self._kv_dtype)).to(dtype).repeat_interleave(Q, 1) for x in (one.k, one.v))
        bias = torch.zeros(len(one.k), self._heads.num_kv_heads, dtype=dtype)
        if one.biases is not None:
            bias[: one.num_biased] = one.biases[: one.num_biased].to(dtype)
        bias = bias.repeat_interleave(Q, 1)
        rows = []
        for q, keys in zip(one.q, keys_seen(one.place, len(one.q), self.window, one.tree), strict=True):
            scores = torch.einsum("hd,lhd->lh", q.bfloat16().to(dtype), k[keys]) / math.sqrt(self._heads.head_dim)
            rows.append(torch.einsum("lh,lhd->hd", (scores + bias[keys]).softmax(0), v[keys]).flatten())
        return torch.stack(rows)

    def check(self, one: Asked, out: Tensor) -> None:
        assert_as_accurate(out, self.judge(one, torch.float32), self.judge(one, torch.float64))


def random_forest(rows: int, seed: int) -> list[int]:
    """Masks; parents before children, sometimes more than one root."""
    choose = random.Random(seed)
    masks: list[int] = []
    for i in range(rows):
        parent = choose.randrange(-1 if choose.random() < 0.2 else max(0, i - 6), i) if i else -1
        masks.append((masks[parent] if parent >= 0 else 0) | 1 << i)
    return masks


def chain(rows: int) -> list[int]:
    return [(1 << i + 1) - 1 for i in range(rows)]


def path_of(one: Asked, row: int) -> Asked:
    """The last of a request's rows on a tree's path, as if its ancestors had been the only ones."""
    first = len(one.k) - len(one.tree)
    places = [*range(first), *(first + i for i in range(len(one.tree)) if one.tree[row] >> i & 1)]
    q = one.q[len(one.q) - len(one.tree) + row :][:1]
    return Asked(one.k[places], one.v[places], q, (), one.biases, one.num_biased, one.dropped)


# -- keys that were dropped --------------------------------------------------------------------------------------------


@by_window
def test_a_row_after_dropped_keys_has_the_bits_of_one_at_its_place(machine: Machine, window: int | None) -> None:
    attention = Attention(machine, HEADS[1], BF16, window)
    requests = [asked(HEADS[1], places, rows, seed) for seed, (places, rows) in enumerate([(90, 40), (600, 1), (7, 7)])]
    expected = attention(*requests, has_sections=False)
    for one, dropped in zip(requests, (1000, 37, 0), strict=True):
        one.dropped = dropped
    for out, bits in zip(attention(*requests), expected, strict=True):
        assert same_bits(out, bits)


def test_keys_are_rotated_by_their_position_and_stored_at_their_place(machine: Machine) -> None:
    heads, rows, first, dropped = HeadLayout(2, 1, 16), 5, 700, 690
    angles = torch.rand(1000, 8, generator=torch.Generator().manual_seed(1)) * 6
    rotary = (torch.cos(angles).repeat(1, 2), torch.cat([-torch.sin(angles), torch.sin(angles)], dim=1))
    pools = []
    for table, sections in (
        ([[2, 1]], Sections(dropped=[[dropped]])),
        ([[0] * 43 + [2, 1]], Sections()),
    ):
        pool = torch.full((3, SIZE, 2, 1, 16), 7, dtype=BF16)
        tape = Tape()
        qkv = tape.symbol(4 * 16, "tokens")
        out = tape.rope_and_write_kv(qkv, None, rotary, pool, GroupOf(0))
        step = flat_step([0] * rows, [], [0, rows], [first - 2], [table], SIZE, sections)
        (q,) = replay(machine, tape, [qkv], [out])(step, draw(rows, 64))
        pools.append((q[:, : 2 * 16], pool))
    assert heads.num_heads == 2
    assert same_bits(pools[0][0], pools[1][0])
    # Position 698 is at place 8 of a compacted cache; at place 10 of the block that holds positions 688 to 703.
    k, k_whole = (pool[2].flatten()[: SIZE * 16].view(8, SIZE, 2).transpose(0, 1) for _, pool in pools)
    assert torch.equal(k[8:13], k_whole[10:15])
    assert (k[:8] == 7).all()
    assert (k[13:] == 7).all()


# -- biases ------------------------------------------------------------------------------------------------------------


@by_heads
@by_window
@by_kv_dtype
@pytest.mark.parametrize("num_biased", [1, 15, 64, 70, 600])
def test_biases_agree_with_float64(
    machine: Machine, heads: HeadLayout, window: int | None, kv_dtype: torch.dtype, num_biased: int
) -> None:
    attention = Attention(machine, heads, kv_dtype, window)
    biased, plain = asked(heads, num_biased + 40, 40), asked(heads, 100, 3, seed=1)
    biased.biases, biased.num_biased = draw(num_biased, heads.num_kv_heads) * 3, num_biased
    outs = attention(biased, plain)
    for one, out in zip((biased, plain), outs, strict=True):
        attention.check(one, out)
    assert same_bits(outs[1], attention(plain, has_sections=False)[0])


@by_kv_dtype
@pytest.mark.parametrize("gone", [slice(0, 10), slice(0, 64), slice(0, 130), slice(0, 513), slice(20, 90)], ids=str)
def test_a_key_with_a_bias_of_minus_infinity_is_as_good_as_none(
    machine: Machine, kv_dtype: torch.dtype, gone: slice
) -> None:
    heads = HEADS[1]
    attention = Attention(machine, heads, kv_dtype)
    one = asked(heads, 640, 35)
    one.biases, one.num_biased = torch.zeros(600, heads.num_kv_heads), 600
    one.biases[gone, 1] = -INF
    out = attention(one)[0]
    attention.check(one, out)
    kept = torch.ones(640, dtype=torch.bool)
    kept[gone] = False
    without = Asked(one.k[kept], one.v[kept], one.q)
    expected = attention.judge(without, torch.float64).view(35, 9, 64)[:, 3:6]
    torch.testing.assert_close(out.view(35, 9, 64)[:, 3:6].double(), expected, rtol=1e-4, atol=1e-5)


def test_a_row_has_the_same_bits_whoever_else_is_biased(machine: Machine) -> None:
    heads = HEADS[1]
    attention = Attention(machine, heads, BF16)
    requests = [asked(heads, 80 + 200 * seed, 1 + 8 * seed, seed) for seed in range(6)]
    for one in requests[::2]:
        one.biases, one.num_biased = draw(one.place, heads.num_kv_heads), one.place - 3
    together = attention(*requests)
    for one, out in zip(requests, together, strict=True):
        assert same_bits(attention(one)[0], out)


# -- forests -----------------------------------------------------------------------------------------------------------


@by_heads
@by_window
@by_kv_dtype
@pytest.mark.parametrize("behind", [0, 5, 60, 500])
def test_a_chain_as_a_tree_has_the_bits_of_causal_attention(
    machine: Machine, heads: HeadLayout, window: int | None, kv_dtype: torch.dtype, behind: int
) -> None:
    attention = Attention(machine, heads, kv_dtype, window)
    for rows in (1, 2, 17, 33, 64):
        one = asked(heads, behind + rows, rows)
        expected = attention(one, has_sections=False)[0]
        for one.tree in (chain(rows), chain(rows // 2)):  # of all rows, and of the last
            assert same_bits(attention(one)[0], expected), (rows, len(one.tree))


@by_heads
@by_window
@by_kv_dtype
@pytest.mark.parametrize("behind", [0, 5, 60, 500])
def test_a_row_of_a_random_forest_agrees_with_float64_and_has_the_bits_of_its_path_alone(
    machine: Machine, heads: HeadLayout, window: int | None, kv_dtype: torch.dtype, behind: int
) -> None:
    attention = Attention(machine, heads, kv_dtype, window)
    for seed, rows in enumerate((2, 9, 64)):
        one = asked(heads, behind + 3 + rows, 3 + rows, seed, random_forest(rows, seed))  # 3 rows before the forest
        out = attention(one)[0]
        attention.check(one, out)
        for row in range(0, rows, 1 if rows < 10 else 9):
            alone = attention(path_of(one, row), has_sections=False)[0]
            assert same_bits(out[3 + row : 4 + row], alone), (rows, row)


@by_kv_dtype
def test_a_forest_has_the_same_bits_in_any_company_and_with_all_sections(
    machine: Machine, kv_dtype: torch.dtype
) -> None:
    heads = HEADS[1]
    attention = Attention(machine, heads, kv_dtype)
    requests = [asked(heads, 40 + 150 * seed, 20 + seed, seed, random_forest(3 * seed, seed)) for seed in range(7)]
    for one in requests[1::2]:
        one.biases, one.num_biased, one.dropped = draw(one.place, heads.num_kv_heads), one.place // 2, 100
    together = attention(*requests)
    for one, out in zip(requests, together, strict=True):
        attention.check(one, out)
        assert same_bits(attention(one)[0], out)


@pytest.mark.parametrize("poison", [INF, NAN])
@by_kv_dtype
def test_a_draft_that_is_not_finite_harms_its_descendants_only(
    machine: Machine, poison: float, kv_dtype: torch.dtype
) -> None:
    heads = HEADS[1]
    attention = Attention(machine, heads, kv_dtype)
    one = asked(heads, 70 + 24, 24, 0, random_forest(24, 3))
    clean = attention(one)[0]
    one.k[75], one.v[75] = poison, poison
    harmed = torch.tensor([bool(mask >> 5 & 1) for mask in one.tree])
    assert 0 < harmed.sum() < 20
    out = attention(one)[0]
    assert not out[harmed].isfinite().any()
    assert same_bits(out[~harmed], clean[~harmed])


def test_a_branch_of_a_whole_step_has_the_bits_of_its_tokens_alone(machine: Machine) -> None:
    """Rotation, storage and attention together: a draft's position is that of its depth."""
    heads, tree, tokens = HeadLayout(2, 1, 16), random_forest(12, 1), [3, *(i * 7 % 10 for i in range(12))]
    angles = torch.rand(100, 8, generator=torch.Generator().manual_seed(1)) * 6
    rotary = (torch.cos(angles).repeat(1, 2), torch.cat([-torch.sin(angles), torch.sin(angles)], dim=1))

    def run(step_tokens: list[int], trees: list[list[int]]) -> Tensor:
        pool = torch.zeros(4, SIZE, 2, 1, 16, dtype=BF16)
        tape = Tape()
        qkv = tape.embedding(TOKENS, draw(10, 64).bfloat16())
        q = tape.rope_and_write_kv(qkv, None, rotary, pool, GroupOf(0))
        out = tape.paged_attention(q, pool, Plan(0, None))
        program = machine.program(tape, [out])
        rows = len(step_tokens)
        program.read(flat_step(step_tokens, [], [0, rows], [20], [[[3, 1, 2]]], SIZE, Sections(trees=trees)))
        program.run()
        return program.view(out, rows).clone()

    out = run(tokens, [tree])
    assert heads.queries_per_kv == 2
    for row, mask in enumerate(tree):
        path = [tokens[0], *(tokens[1 + i] for i in range(12) if mask >> i & 1)]
        assert same_bits(out[1 + row], run(path, [[]])[-1]), row


def test_the_judge_of_these_tests_agrees_with_the_reference() -> None:
    heads = HEADS[0]
    one = asked(heads, 30, 6, 0, random_forest(4, 2))
    one.biases, one.num_biased = draw(30, heads.num_kv_heads), 9
    pool, biases = torch.zeros(2, SIZE, 2, 4, 16), torch.zeros(2, 4, SIZE)
    pool.flatten(0, 1)[:30] = torch.stack([one.k, one.v], dim=1)
    biases.transpose(1, 2).reshape(32, 4)
    for place in range(9):
        biases[place // SIZE, :, place % SIZE] = one.biases[place]
    attention = Attention.__new__(Attention)
    attention._heads, attention._kv_dtype, attention.window = heads, torch.float32, None
    judged = attention.judge(one, torch.float32)
    for row, keys in enumerate(keys_seen(one.place, 6, None, one.tree)):
        ours = reference.attend_row(one.q[row].bfloat16().float(), pool, keys, biases_BGS=biases)
        torch.testing.assert_close(ours.flatten(), judged[row])
