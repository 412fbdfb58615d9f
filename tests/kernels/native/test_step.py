"""A step that contradicts itself or its program is refused before anything is read or written by it."""

import random

import numpy as np
import pytest
import torch

from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.native.backend import Sections, flat_step
from dayzero.kernels.native.program import NativeProgram
from dayzero.kernels.native.recorder import SAMPLE_AT, TOKENS, GroupOf, Plan, Symbol, Tape
from tests.kernels.native.replay import Flat, Machine, draw, same_bits

HEADS = HeadLayout(2, 1, 16)
VOCABULARY, CONTEXT, WIDTH = 10, 64, 64
INT_MAX = 2**31 - 1
# Where the flat form has its numbers.
NUM_TOKENS, NUM_SAMPLES, NUM_REQUESTS, BLOCK_SIZE, NUM_GROUPS, STRIDE = range(6)
TOKEN, SAMPLE, QUERY_START, FIRST, TABLE = 6, 11, 13, 16, 18


class SmallModel:
    """One layer without products: a token is embedded, its K and V stored, and its request attended to."""

    def __init__(self, machine: Machine, group: int = 0) -> None:
        tape = Tape()
        self.pool = torch.zeros(6, 16, 2, 1, 16, dtype=torch.bfloat16)
        qkv = tape.embedding(TOKENS, draw(VOCABULARY, WIDTH).bfloat16())
        rotary = (torch.ones(CONTEXT, 16), torch.zeros(CONTEXT, 16))
        q = tape.rope_and_write_kv(qkv, None, rotary, self.pool, GroupOf(group))
        self.out: Symbol = tape.paged_attention(q, self.pool, Plan(group, None))[SAMPLE_AT]
        self.program: NativeProgram = machine.program(tape, [self.out])

    def run(self, step: Flat) -> torch.Tensor:
        self.program.read(step)
        self.program.run()
        return self.program.view(self.out, int(step[NUM_SAMPLES])).clone()


def good_step() -> Flat:
    """Two requests of 3 and 2 rows, at positions 20 and 0."""
    return flat_step([1, 2, 3, 4, 5], [2, 4], [0, 3, 5], [20, 0], [[[1, 2], [3]]], 16)


@pytest.fixture
def model(machine: Machine) -> SmallModel:
    return SmallModel(machine)


def test_the_flat_form_is_what_these_tests_think(model: SmallModel) -> None:
    step = good_step()
    assert step[TOKEN : TOKEN + 5].tolist() == [1, 2, 3, 4, 5]
    assert step[SAMPLE : SAMPLE + 2].tolist() == [2, 4]
    assert step[QUERY_START : QUERY_START + 3].tolist() == [0, 3, 5]
    assert step[FIRST : FIRST + 2].tolist() == [20, 0]
    assert step[TABLE:].tolist() == [1, 2, 3, 0]
    assert model.run(step).isfinite().all()


CHANGES: dict[str, tuple[int, int]] = {
    "fewer tokens than it has": (NUM_TOKENS, 4),
    "more tokens than it has": (NUM_TOKENS, 6),
    "less than no tokens": (NUM_TOKENS, -1),
    "more tokens than memory": (NUM_TOKENS, INT_MAX),
    "less than no samples": (NUM_SAMPLES, -2),
    "more samples than memory": (NUM_SAMPLES, INT_MAX),
    "no requests": (NUM_REQUESTS, 0),
    "less than no requests": (NUM_REQUESTS, -1),
    "more requests than memory": (NUM_REQUESTS, INT_MAX),
    "a block beyond the pool": (TABLE, 6),
    "a block beyond any pool": (TABLE, INT_MAX),
    "blocks of no size": (BLOCK_SIZE, 0),
    "blocks of less than no size": (BLOCK_SIZE, -16),
    "blocks of half the pool's size": (BLOCK_SIZE, 8),
    "blocks of twice the pool's size": (BLOCK_SIZE, 32),
    "less than no groups": (NUM_GROUPS, -1),
    "no groups": (NUM_GROUPS, 0),
    "more groups than memory": (NUM_GROUPS, INT_MAX),
    "a table of no width": (STRIDE, 0),
    "a table of less than no width": (STRIDE, -2),
    "a table wider than memory": (STRIDE, INT_MAX),
    "a token below the vocabulary": (TOKEN, -1),
    "a token beyond the vocabulary": (TOKEN + 4, VOCABULARY),
    "a sample before its rows": (SAMPLE, -1),
    "a sample beyond its rows": (SAMPLE + 1, 5),
    "requests that begin after the first row": (QUERY_START, 1),
    "requests that begin before the first row": (QUERY_START, -1),
    "a request that ends beyond the last row": (QUERY_START + 1, 6),
    "a request that ends before it begins": (QUERY_START + 1, -1),
    "requests that leave a row": (QUERY_START + 2, 4),
    "a position below 0": (FIRST, -1),
    "a position beyond its table": (FIRST, 30),
    "a position beyond 31 bits": (FIRST, INT_MAX - 1),
    "a block below 0": (TABLE + 1, -1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_bad_step_is_refused(model: SmallModel, what: str) -> None:
    at, value = CHANGES[what]
    step = good_step()
    expected = model.run(step)
    pool = model.pool.clone()
    step[at] = value
    with pytest.raises(ValueError, match=r"step|position|block|token|sample"):
        model.run(step)
    assert torch.equal(model.pool, pool)
    assert same_bits(model.run(good_step()), expected)  # and does no harm to the next


FOREST = [1, 3, 5, 13]  # a root, two children, and a child of the second
BAD_SECTIONS = {
    "a key before the first": Sections(dropped=[[21, 0]]),
    "less than no keys": Sections(dropped=[[0, -1]]),
    "dropped keys of too few requests": Sections(dropped=[[1]]),
    "a bias of a key of the step": Sections(biased=[[21, 0]]),
    "a bias of a dropped key": Sections(dropped=[[15, 0]], biased=[[6, 0]]),
    "less than no biases": Sections(biased=[[0, -1]]),
    "biases of a layer that has none": Sections(biased=[[3, 0]]),
    "a tree larger than its request": Sections(trees=[FOREST, []]),
    "a tree of the next request": Sections(trees=[[], [1, 3, 7]]),
    "a row that does not see itself": Sections(trees=[[1, 1], []]),
    "a row that sees a later one": Sections(trees=[[3, 3], []]),
    "a row that sees what its parent does not": Sections(trees=[[1, 2, 7], []]),
    "a row that does not see what its parent does": Sections(trees=[[1, 3, 6], []]),
    "a row that sees nothing": Sections(trees=[[0], []]),
    "masks of fewer rows than it says": Sections(trees=[[1, 3, 7]]),
    "trees of too many requests": Sections(trees=[[1], [], []]),
}


@pytest.mark.parametrize("what", BAD_SECTIONS)
def test_a_bad_section_is_refused(model: SmallModel, what: str) -> None:
    step = good_step()
    expected = model.run(step)
    with pytest.raises(ValueError, match=r"step|key|tree|bias"):
        model.run(np.append(step, np.array(BAD_SECTIONS[what].flat(), dtype=np.int32)))
    assert same_bits(model.run(step), expected)


def test_sections_are_read_in_order_and_once(model: SmallModel) -> None:
    dropped, trees = Sections(dropped=[[3, 0]]).flat(), Sections(trees=[[1], []]).flat()
    for good in ([], dropped, trees, dropped + trees):
        model.run(np.append(good_step(), np.array(good, dtype=np.int32)))
    for bad in (trees + dropped, dropped + dropped, [4, 0, 0], [0], [-1], dropped[:-1]):
        with pytest.raises(ValueError, match=r"longer|shorter"):
            model.run(np.append(good_step(), np.array(bad, dtype=np.int32)))


def test_a_tree_has_64_rows_at_most(model: SmallModel) -> None:
    masks = [(1 << i + 1) - 1 for i in range(64)]
    tables = [[[1, 2, 3, 4, 5]]]
    for rows in (64, 65):
        step = flat_step([1] * rows, [rows - 1], [0, rows], [0], tables, 16, Sections(trees=[masks[:64]]))
        if rows == 65:
            step[-2 * 64 - 1] = 65
            with pytest.raises(ValueError, match="64 rows"):
                model.program.read(np.append(step, np.array([-1, 1], dtype=np.int32)))
        else:
            assert model.run(step).isfinite().all()


def test_random_numbers_in_place_of_sections_are_refused_or_run(model: SmallModel) -> None:
    choose = random.Random(0)
    sections = Sections(dropped=[[4, 0]], biased=[[0, 0]], trees=[[1, 3, 5], [1, 3]])
    step = np.append(good_step(), np.array(sections.flat(), dtype=np.int32))
    assert model.run(step).isfinite().all()
    num_refused = 0
    for _ in range(2000):
        bad = step.copy()
        for at in choose.sample(range(len(good_step()), len(step)), choose.randint(1, 2)):
            bad[at] = choose.choice([choose.randint(-2, 8), 64, 2**16, INT_MAX, -INT_MAX - 1])
        try:
            model.run(bad)
        except ValueError:
            num_refused += 1
    assert 1000 < num_refused < 2000


def test_a_position_beyond_the_rotary_tables_is_refused(model: SmallModel) -> None:
    step = flat_step([1, 2], [], [0, 2], [CONTEXT - 1], [[[1] * 5]], 16)
    with pytest.raises(ValueError, match="beyond the context"):
        model.run(step)


def test_a_position_beyond_31_bits_is_refused_even_if_its_block_is_there(model: SmallModel) -> None:
    step = good_step()
    step[FIRST], step[BLOCK_SIZE] = INT_MAX - 1, INT_MAX
    with pytest.raises(ValueError, match="beyond any context"):
        model.run(step)


def test_a_step_that_lacks_the_group_of_an_op_is_refused(machine: Machine) -> None:
    with pytest.raises(ValueError, match="lacks a cache group"):
        SmallModel(machine, group=1).run(good_step())


def test_a_step_cut_anywhere_or_with_something_after_it_is_refused(model: SmallModel) -> None:
    step = good_step()
    for length in range(len(step)):
        with pytest.raises(ValueError, match="shorter"):
            model.program.read(step[:length].copy())
    with pytest.raises(ValueError, match="longer"):
        model.program.read(np.append(step, np.int32(0)))


def test_after_a_refused_step_there_is_nothing_to_run(model: SmallModel) -> None:
    model.run(good_step())
    pool = model.pool.clone()
    bad = good_step()
    bad[SAMPLE] = 5
    with pytest.raises(ValueError, match="sampled row"):
        model.program.read(bad)
    model.program.run()
    assert torch.equal(model.pool, pool)


def test_random_numbers_in_place_of_a_step_are_refused_or_run(model: SmallModel) -> None:
    """Blocks stay within the pool, which a step says nothing of; every other number is wild."""
    choose = random.Random(0)
    num_refused = 0
    for _ in range(3000):
        step = good_step()
        for at in choose.sample(range(len(step)), choose.randint(1, 3)):
            small = choose.randint(0, 5)
            step[at] = small if at >= TABLE else choose.choice([small, -small, 16, 64, 2**16, INT_MAX, -INT_MAX - 1])
        try:
            model.run(step)
        except ValueError:
            num_refused += 1
    assert 1000 < num_refused < 3000


def test_a_step_of_no_rows_runs(model: SmallModel) -> None:
    assert model.run(flat_step([], [], [0], [], [[]], 16)).shape == (0, 32)
    assert model.run(flat_step([], [], [0, 0], [7], [[[1]]], 16)).shape == (0, 32)


@pytest.mark.parametrize("index", [-1, 4, 100])
def test_an_op_that_a_program_does_not_have_is_refused(machine: Machine, index: int) -> None:
    model = SmallModel(machine)
    assert model.program.num_ops == 4
    native = machine.native.Program(machine.pool, machine.instruction_set)
    with pytest.raises(IndexError, match="no such op"):
        native.run_op(index)


@pytest.mark.parametrize("count", [0, -1])
def test_a_pool_has_a_thread(machine: Machine, count: int) -> None:
    with pytest.raises(ValueError, match="a pool has a thread"):
        machine.native.ThreadPool(count, 50)


def test_an_unknown_instruction_set_is_refused_by_name(machine: Machine) -> None:
    with pytest.raises(ValueError, match="mmx"):
        machine.native.Program(machine.pool, "mmx")


def test_op_by_op_and_timed_runs_compute_the_same(model: SmallModel) -> None:
    step = good_step()
    expected = model.run(step)
    for run in (model.program.run_op_by_op, model.program.run_timed):
        model.program.view(model.out, 2).zero_()
        run()
        assert same_bits(model.program.view(model.out, 2), expected)


def test_a_timed_run_names_every_op(model: SmallModel) -> None:
    model.program.read(good_step())
    names = [name for name, _ in model.program.run_timed()]
    assert names == ["embedding", "rope_and_write_kv", "attention", "take_samples"]
