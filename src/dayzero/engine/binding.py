"""What binds the output of running requests, computed on a thread of its own.

A grammar is built and followed beside the loop, never in it: while the mask of a request's next token is not there, the
request sits out and the others go on. The result depends on the constraint and the output alone.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dayzero.core.constraint import Constraint
from dayzero.errors import RequestError
from dayzero.grammar.matcher import Mask, Matcher, TokenTable

SLOW_MASK_S = 0.05
MAX_SLOW_MASKS = 3
_TOO_COMPLEX = "the grammar needs more work than a request may take"
_NOT_FOLLOWED = "the grammar cannot be followed"


class Binding:
    """One request's constraint. The loop reads it when `is_ready`, and tells it of tokens; the rest is the thread's.

    allowed   mask of the next token; None: all are
    error     why the request cannot go on
    """

    def __init__(self, constraint: Constraint, table: TokenTable, binder: "Binder") -> None:
        self.allowed: Mask | None = None
        self.error: str | None = None
        self._constraint = constraint
        self._table = table
        self._binder = binder
        self._matcher: Matcher | None = None
        self._tail = b""  # of the output while no grammar is on: what `after_texts` may end
        self._is_over = False
        self._num_slow = 0
        self._ready = threading.Event()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def advance(self, tokens: Sequence[int]) -> None:
        """The output has gained these."""
        self._ready.clear()
        self._binder.run(self, lambda: self._follow(tokens))

    def begin(self, committed: Sequence[int]) -> None:
        """Build the grammar, and follow what was already delivered."""
        self._binder.run(self, lambda: self._begin(committed))

    def finish(self, job_error: str | None) -> None:
        """Of the thread: a job is done."""
        self.error = self.error or job_error
        self._ready.set()

    def wait(self, timeout_s: float) -> bool:
        return self._ready.wait(timeout_s)

    def _begin(self, committed: Sequence[int]) -> None:
        constraint = self._constraint
        if constraint.grammar and not constraint.after_tokens and not constraint.after_texts:
            self._switch_on()
        self._follow(committed)

    def _follow(self, tokens: Sequence[int]) -> None:
        start_s = time.perf_counter()
        for token in tokens:
            if self._matcher is not None:
                self._step(token)
            elif not self._is_over:
                self._look_for_trigger(token)
            if self.error is not None:
                return
        self.allowed = self._mask()
        if time.perf_counter() - start_s > SLOW_MASK_S:
            self._num_slow += 1
            if self._num_slow >= MAX_SLOW_MASKS:
                self.error = _TOO_COMPLEX

    def _switch_on(self) -> None:
        self._matcher = self._table.matcher(self._constraint.grammar)
        if self._matcher.is_broken:
            self.error = _NOT_FOLLOWED
        self._tail = b""

    def _step(self, token: int) -> None:
        matcher = self._matcher
        assert matcher is not None
        if not matcher.take([token]):
            self.error = _NOT_FOLLOWED
        elif matcher.is_complete and self._constraint.repeats:
            self._matcher = None

    def _look_for_trigger(self, token: int) -> None:
        constraint = self._constraint
        if token in constraint.after_tokens:
            self._switch_on()
        elif constraint.after_texts:
            longest = max(map(len, constraint.after_texts))
            self._tail = (self._tail + self._table.token_bytes(token))[-(longest + 256) :]
            if self._tail.endswith(constraint.after_texts):
                self._switch_on()

    def _mask(self) -> Mask | None:
        if self._matcher is None:
            return self._binder.all_but(self._constraint.banned) if self._constraint.banned else None
        mask = self._matcher.mask()
        if self._matcher.is_broken:
            self.error = _TOO_COMPLEX
        return mask


class Binder:
    """The thread, and what all bindings share."""

    def __init__(self, vocab_size: int, eos_token_ids: Sequence[int]) -> None:
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")
        self._table: TokenTable | None = None
        self._tokenizer: str | None = None

    def learn(self, tokenizer: str) -> None:
        """The tokenizer, as its library writes it; once, before the first constraint."""
        self._tokenizer = tokenizer

    def bind(self, constraint: Constraint, committed: Sequence[int]) -> Binding:
        """A request's binding, which is not ready yet. RequestError if there is no tokenizer."""
        if self._table is None:
            if self._tokenizer is None or not self._eos_token_ids:
                raise RequestError("grammars need a tokenizer and an end-of-sequence token")
            self._table = TokenTable(self._tokenizer, self._vocab_size, self._eos_token_ids)
        binding = Binding(constraint, self._table, self)
        binding.begin(committed)
        return binding

    def run(self, binding: Binding, job: Callable[[], None]) -> None:
        """Do a job on the thread; jobs of one binding in their order. Whatever goes wrong ends its request only."""

        def guarded() -> None:
            error = None
            try:
                job()
            except Exception:  # noqa: BLE001 - of a library, for one request; its message may quote the output
                error = _NOT_FOLLOWED
            binding.finish(error)

        self._thread.submit(guarded)

    def all_but(self, banned: Sequence[int]) -> Mask:
        """The mask that lets every token through but these."""
        mask = np.full(-(-self._vocab_size // 32), 0xFFFFFFFF, dtype=np.uint32)
        for token in banned:
            mask[token // 32] &= np.uint32(0xFFFFFFFF ^ (1 << token % 32))
        return mask.view(np.int32)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
