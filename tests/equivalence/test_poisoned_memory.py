"""What makes the poison of `loaded` a test: reading a block or a mask that is no longer one's own is always noticed."""

from collections.abc import Sequence
from pathlib import Path

import llguidance as lg
import pytest
import torch

from dayzero.core.constraint import Constraint
from dayzero.core.events import FinishReason
from dayzero.core.sampling import SamplingParams
from dayzero.engine.batch import Batch, Outcome, Span
from dayzero.engine.binding import Binder
from dayzero.engine.request import Request
from dayzero.engine.runner import ModelRunner
from dayzero.kv.cache import KVCache
from dayzero.wire.messages import Submit
from tests.equivalence.loaded import BLOCK_SIZE, POLICY_VERSION, Loaded, Sizes, Traffic, by_kernels
from tests.gateway.stand import byte_tokenizer
from tests.golden.tiny import TINY, VOCAB_SIZE, save

pytestmark = pytest.mark.model

PROMPT = list(range(3, 43))  # into the third block
NUM_BLOCKS = 5
BOUND = Constraint(grammar=lg.LLMatcher.grammar_from_regex("[ab]{3}c"))


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


@by_kernels
def test_outputs_follow_a_grammar_by_poisoned_masks(
    dtype: torch.dtype, wish: str, precision: str, kv_dtype: torch.dtype, tmp_path: Path
) -> None:
    save(TINY["llama untied, one KV head"], tmp_path)
    loaded = Loaded(tmp_path, dtype, max_context=1024, wish=wish, precision=precision, kv_dtype=kv_dtype)
    engine = loaded.engine(Sizes(num_blocks=(32,)))
    engine.learn(byte_tokenizer().to_json())
    traffic = Traffic(engine)
    for number in range(4):
        params = SamplingParams(max_tokens=8, temperature=1.0, seed=number)
        constraint = BOUND if number % 2 else None
        one = Submit(
            request_id=number,
            prompt=PROMPT,
            params=params,
            salt="",
            policy_version=POLICY_VERSION,
            constraint=constraint,
        )
        traffic.submit(one)
    traffic.drain()
    for number in (1, 3):
        answer = traffic.answers()[number]
        assert answer.finish is FinishReason.STOP
        text = bytes(token for token in answer.tokens if token not in loaded.eos_token_ids)
        assert (len(text), text[:3].strip(b"ab"), text[3:]) == (4, b"", b"c")


@by_kernels
def test_a_mask_that_outlives_its_token_gives_no_other(
    dtype: torch.dtype, wish: str, precision: str, kv_dtype: torch.dtype, tmp_path: Path
) -> None:
    save(TINY["llama untied, one KV head"], tmp_path)
    loaded = Loaded(tmp_path, dtype, max_context=1024, wish=wish, precision=precision, kv_dtype=kv_dtype)
    runner = loaded.runner(loaded.store([NUM_BLOCKS], BLOCK_SIZE), BLOCK_SIZE)
    binder = Binder(VOCAB_SIZE, loaded.eos_token_ids, poisoned=True)
    binder.learn(byte_tokenizer().to_json())
    bound = request([[1, 2, 3]])
    bound.binding = binder.bind(BOUND, [])
    assert bound.binding.wait(60)
    drawn = outcome(runner, bound, 0)
    assert bytes(drawn.tokens) in (b"a", b"b")
    bound.binding.drop()
    assert outcome(runner, bound, len(PROMPT) - 1).error is not None
