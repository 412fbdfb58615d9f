"""One model's weights, engines of any size around them, and the loop that all engines must agree with.

Memory is poisoned: blocks hold NaN before they are first held and from when they are freed, and so do the buffers of
a native step before it writes them; a grammar's mask lets nothing through once it was drawn by. Whoever reads what is
not theirs has other bits, or none that are finite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from dayzero.checkpoint.open import open_checkpoint
from dayzero.clock import FakeClock
from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.core.spec import EngineSpec
from dayzero.engine.batch import Batch, Span
from dayzero.engine.endpoints import Endpoints
from dayzero.engine.engine import Engine
from dayzero.engine.model import bind
from dayzero.engine.request import Request
from dayzero.engine.runner import ModelRunner
from dayzero.engine.scheduler import Scheduler, SchedulerLimits, finish_reason
from dayzero.kernels.attention import HeadLayout
from dayzero.kernels.choose import choose
from dayzero.kernels.kv_format import head_bytes
from dayzero.kernels.native.backend import NativeKernels, obstacle
from dayzero.kv.cache import KVCache
from dayzero.kv.store import KVStore
from dayzero.models.loader import load
from dayzero.models.registry import family_of
from dayzero.wire.messages import Load, Submit

POLICY_VERSION = "under test"
BLOCK_SIZE = 16


NOT_NATIVE = obstacle(torch.bfloat16, HeadLayout(6, 2, 16), BLOCK_SIZE)


def _native(precision: str, kv_dtype: torch.dtype = torch.bfloat16) -> object:
    skip = pytest.mark.skipif(bool(NOT_NATIVE), reason=NOT_NATIVE)
    name = f"native {precision}" + (", KV in int8" if kv_dtype is torch.int8 else "")
    return pytest.param(torch.bfloat16, "native", precision, kv_dtype, id=name, marks=skip)


by_kernels = pytest.mark.parametrize(
    ("dtype", "wish", "precision", "kv_dtype"),
    [
        pytest.param(torch.float32, "torch", "float32", torch.float32, id="float32"),
        pytest.param(torch.bfloat16, "torch", "bf16", torch.bfloat16, id="bfloat16"),
        *(_native(precision) for precision in ("bf16", "int8", "nvfp4", "as-stored")),
        _native("bf16", torch.int8),
    ],
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of an engine; none of them may change a token. `num_blocks` of each cache group, the null block included."""

    num_blocks: tuple[int, ...]
    block_size: int = BLOCK_SIZE
    prefix_cache: bool = True
    max_step_tokens: int = 512
    max_requests: int = 8


@dataclass(frozen=True)
class Answer:
    """All that a client learns of a request."""

    tokens: tuple[int, ...]
    finish: FinishReason | None
    logprobs: tuple[Logprob, ...] = ()
    prompt_logprobs: tuple[Logprob | None, ...] = ()

    def after(self, committed: int) -> "Answer":
        """What is left to say to a client that has the first `committed` tokens."""
        return Answer(self.tokens[committed:], self.finish, self.logprobs[committed:], self.prompt_logprobs)


def answer_of(events: Sequence[TokenEvent]) -> Answer:
    """The events of one request, together."""
    return Answer(
        tuple(token for event in events for token in event.tokens),
        events[-1].finish if events else None,
        tuple(logprob for event in events for logprob in event.logprobs or ()),
        tuple(logprob for event in events for logprob in event.prompt_logprobs or ()),
    )


class Loaded:
    """A checkpoint in one dtype."""

    def __init__(
        self,
        path: Path,
        dtype: torch.dtype,
        *,
        max_context: int,
        wish: str = "auto",
        precision: str = "bf16",
        kv_dtype: torch.dtype | None = None,
    ) -> None:
        checkpoint = open_checkpoint(path)
        self.family = family_of(checkpoint.family)
        self.shape = self.family.parse(checkpoint.config)
        self.dtype = dtype
        self.precision = precision
        self.max_context = max_context
        self.eos_token_ids = checkpoint.generation.eos_token_ids
        self.kernels = choose(dtype, self.shape.heads, BLOCK_SIZE, torch.get_num_threads(), wish, poisoned=True)
        self.kv_dtype = kv_dtype or dtype
        self.groups = self.family.groups(self.shape, head_bytes(self.shape.heads.head_dim, self.kv_dtype))
        self.weights = load(self.family, self.shape, checkpoint.tensors, dtype, self.kernels, precision=precision)

    @property
    def block_sizes(self) -> list[int]:
        """That these kernels can serve."""
        return [16, 32] if isinstance(self.kernels, NativeKernels) else [8, 16, 32]

    def engine(self, sizes: Sizes, names: Sequence[str] = ("",)) -> Engine:
        """A fresh one: nothing cached, nothing running. Each of its endpoints has these sizes."""
        counts = [count - 1 for count in sizes.num_blocks]
        store = self.store([1 + len(names) * count for count in counts], sizes.block_size)
        limits = SchedulerLimits(
            max_step_tokens=sizes.max_step_tokens,
            max_requests=sizes.max_requests,
            max_context=self.max_context,
            eos_token_ids=frozenset(self.eos_token_ids),
            whole_spans=self.family.is_encoder,
        )
        schedulers = {
            name: Scheduler(
                limits,
                KVCache(
                    self.groups,
                    sizes.num_blocks,
                    block_size=sizes.block_size,
                    prefix_cache=sizes.prefix_cache,
                    freed=store.poison,
                    firsts=[1 + number * count for count in counts],
                ),
            )
            for number, name in enumerate(names)
        }
        clock = FakeClock()
        endpoints = Endpoints(schedulers, max_step_tokens=len(names) * sizes.max_step_tokens, clock=clock)
        return Engine(endpoints, self.runner(store, sizes.block_size), clock, self._spec(sizes), poisoned=True)

    def alone(self, submit: Submit) -> Answer:
        """The reference loop: the whole prompt in one step, then a token a step, in blocks that nobody else uses."""
        size = BLOCK_SIZE
        most = len(submit.prompt) + submit.params.max_tokens
        blocks = list(range(1, -(-most // size) + 1))
        runner = self.runner(self.store([len(blocks) + 1] * len(self.groups), size), size)
        limits = SchedulerLimits(
            max_step_tokens=most,
            max_requests=1,
            max_context=self.max_context,
            eos_token_ids=frozenset(self.eos_token_ids),
        )
        request = Request(
            id=0,
            prompt=submit.prompt,
            params=submit.params,
            salt="",
            policy_version="",
            choice=submit.choice,
            block_tables=[blocks for _ in self.groups],
        )
        logprobs: list[Logprob] = []
        prompt_logprobs: list[Logprob | None] = [] if submit.params.prompt_logprobs is None else [None]
        finish = None
        while finish is None:
            span = Span(request, request.num_computed, request.num_tokens - request.num_computed)
            (outcome,) = runner.launch(Batch(0, (span,))).collect()
            assert outcome.error is None
            request.num_computed = span.stop
            request.output.extend(outcome.tokens)
            logprobs.extend(outcome.logprobs or ())
            prompt_logprobs.extend(outcome.prompt_logprobs or ())
            finish = finish_reason(request, limits)
        return Answer(tuple(request.output), finish, tuple(logprobs), tuple(prompt_logprobs))

    def store(self, num_blocks: Sequence[int], block_size: int) -> KVStore:
        """A fresh one, poisoned but for the null block, which nobody ever writes."""
        store = KVStore(self.groups, num_blocks, block_size, self.shape.heads, self.kv_dtype)
        for group, count in enumerate(num_blocks):
            for block in range(1, count):
                store.poison(group, block)
        return store

    def runner(self, store: KVStore, block_size: int) -> ModelRunner:
        """Of steps over these blocks."""
        model = bind(self.family, self.weights, self.kernels, store, self.groups, block_size)
        return ModelRunner(model, eos_token_ids=self.eos_token_ids)

    def _spec(self, sizes: Sizes) -> EngineSpec:
        return EngineSpec(
            model="",
            family=self.family.name,
            dtype=str(self.dtype),
            precision=self.precision,
            vocab_size=self.shape.vocab_size,
            embedding_size=self.shape.hidden_size,
            max_context=self.max_context,
            eos_token_ids=self.eos_token_ids,
            weight_bytes=0,
            block_size=sizes.block_size,
            kv_blocks=sum(sizes.num_blocks[:1]),
            kv_bytes=0,
            kv_dtype=str(self.kv_dtype),
            max_requests=sizes.max_requests,
            max_step_tokens=sizes.max_step_tokens,
            threads=torch.get_num_threads(),
            prefix_cache=sizes.prefix_cache,
            numerics_id="",
            policy_version=POLICY_VERSION,
            kernels=(),
            is_encoder=self.family.is_encoder,
        )


class Traffic:
    """An engine's requests and what came of them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: dict[int, list[TokenEvent]] = {}
        self.load = Load()

    def submit(self, submit: Submit) -> None:
        self.events[submit.request_id] = []
        self.engine.submit(submit)

    def step(self) -> None:
        report = self.engine.step()
        if report is not None:
            self.load = report.load
            for event in report.events:
                self.events[event.request_id].append(event)

    def drain(self) -> None:
        while self.engine.has_work:
            self.step()

    def answers(self) -> dict[int, Answer]:
        return {request_id: answer_of(events) for request_id, events in self.events.items()}
