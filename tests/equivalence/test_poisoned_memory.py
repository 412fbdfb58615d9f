"""What makes the poison of `loaded` a test: who reads a block that is no longer theirs cannot fail to notice."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from dayzero.core.sampling import SamplingParams
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.request import Request
from dayzero.engine.runner import ModelRunner
from dayzero.kv.cache import KVCache
from tests.equivalence.loaded import BLOCK_SIZE, Loaded, by_kernels
from tests.golden.tiny import TINY, save

pytestmark = pytest.mark.model

PROMPT = list(range(3, 43))  # into the third block
NUM_BLOCKS = 5


def request(block_tables: Sequence[list[int]]) -> Request:
    params = SamplingParams(max_tokens=4, temperature=0.0, seed=0)
    tables = [list(table) for table in block_tables]
    return Request(id=0, prompt=PROMPT, params=params, salt="", policy_version="", block_tables=tables)


def outcome(runner: ModelRunner, of: Request, start: int) -> Outcome:
    (found,) = runner.launch(Batch(0, (Span(of, start, len(PROMPT) - start),))).collect()
    return found


@by_kernels
@pytest.mark.parametrize("name", ["llama untied, one KV head", "gemma3"])
def test_a_block_table_that_outlives_its_request_gives_no_token(
    name: str, dtype: torch.dtype, wish: str, precision: str, kv_dtype: torch.dtype, tmp_path: Path
) -> None:
    save(TINY[name], tmp_path)
    loaded = Loaded(tmp_path, dtype, max_context=1024, wish=wish, precision=precision, kv_dtype=kv_dtype)
    num_blocks = [NUM_BLOCKS] * len(loaded.groups)
    store = loaded.store(num_blocks, BLOCK_SIZE)
    cache = KVCache(loaded.groups, num_blocks, block_size=BLOCK_SIZE, prefix_cache=False, freed=store.poison)
    runner = loaded.runner(store, BLOCK_SIZE)
    tables = cache.admit([], len(PROMPT), spare=0)
    assert tables is not None
    assert cache.extend(tables, 0, len(PROMPT))
    held = request(tables)
    whole = outcome(runner, held, 0)
    assert whole.error is None
    assert outcome(runner, held, len(PROMPT) - 1) == whole  # the last token once more: its blocks are still there
    stale = request(tables)
    cache.release(tables)
    assert outcome(runner, stale, len(PROMPT) - 1).error is not None
