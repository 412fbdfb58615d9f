"""What binds the outputs of requests, computed on threads of its own.

A grammar is built and followed beside the loop, never in it: while the mask of a request's next token is not there, the
request sits out and the others go on. The result depends on the constraint and the output alone.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dayzero.core.constraint import Constraint
from dayzero.core.events import FinishReason
from dayzero.errors import RequestError
from dayzero.grammar.matcher import Mask, Matcher, TokenTable

SLOW_MASK_S = 0.05  # of the thread's own time, so that neighbours do not matter
MAX_SLOW_MASKS = 3


@dataclass(frozen=True, slots=True)
class Broken:
    """Why a request cannot go on, and whose fault it is."""

    finish: FinishReason
    error: str


TOO_MUCH = Broken(FinishReason.GRAMMAR, "the grammar cannot be followed, or needs more work than a request may take")
ONLY_BANNED = Broken(FinishReason.GRAMMAR, "the grammar wants tokens that the model must never write here")
FAULT = Broken(FinishReason.ERROR, "the grammar could not be followed")


class Binding:
    """One request's constraint. The loop reads it when `is_ready`, and tells it of tokens; the rest is a thread's.

    allowed    mask of the next token; None: all are
    broken     why the request cannot go on; None: it can
    is_ready   what was last begun is done
    """

    def __init__(self, constraint: Constraint, binder: "Binder") -> None:
        self.allowed: Mask | None = None
        self.broken: Broken | None = None
        self._constraint = constraint
        self._after_tokens = frozenset(constraint.after_tokens)
        self._binder = binder
        self._matcher: Matcher | None = None
        self._num_slow = 0
        self._is_dropped = False
        self.is_ready = False
        self._spoil()

    def wait(self, timeout_s: float) -> bool:
        return self.is_ready or self._binder.wait_for(lambda: self.is_ready, timeout_s)

    def advance(self, tokens: Sequence[int]) -> None:
        """The output has gained these. Where none of them switches a grammar on, that is no work for a thread."""
        if self._matcher is None and self._after_tokens.isdisjoint(tokens):
            return
        self.is_ready = False
        self._spoil()
        self._binder.follow(lambda: self._do(self._follow, tokens))

    def begin(self, committed: Sequence[int]) -> None:
        """Build the grammar, and follow what was already delivered: at once, where nothing has switched it on yet."""
        if self._after_tokens and self._after_tokens.isdisjoint(committed):
            self.allowed, self.is_ready = self._mask(), True
            return
        self._binder.build(lambda: self._do(self._begin, committed))

    def drop(self) -> None:
        """The request has ended: what is still to be done for it is not."""
        self._is_dropped = True
        self._spoil()

    def _spoil(self) -> None:
        """A mask is for one token: if it is poisoned, who reads it again, or too early, has none that may come."""
        if self._binder.poisoned:
            if self.allowed is not None:
                self.allowed.fill(0)
            self.allowed = self._binder.nothing()

    def _do(self, job: Callable[[Sequence[int]], None], tokens: Sequence[int]) -> None:
        """One job, on a thread. Whatever goes wrong ends this request only."""
        try:
            if not self._is_dropped:
                job(tokens)
        except BaseException:  # noqa: BLE001 - a library's, whose panics are no Exception and whose messages quote outputs
            self.broken = FAULT
        finally:
            self.is_ready = True

    def _begin(self, committed: Sequence[int]) -> None:
        if not self._after_tokens:
            self._switch_on()
        self._follow(committed)

    def _follow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._matcher is None:
                if token in self._after_tokens:
                    self._switch_on()
            elif not self._matcher.take([token]):
                self.broken = TOO_MUCH
            elif self._constraint.repeats and self._matcher.is_complete:
                self._matcher = None
        self.allowed = self._mask()

    def _switch_on(self) -> None:
        self._matcher = self._binder.table.matcher(self._constraint.grammar)

    def _mask(self) -> Mask | None:
        banned = self._constraint.banned
        if self._matcher is None:
            return self._binder.without(None, banned) if banned else None
        start_s = time.thread_time()
        mask = self._matcher.mask()
        self._num_slow += time.thread_time() - start_s > SLOW_MASK_S
        if self._matcher.is_broken or self._num_slow >= MAX_SLOW_MASKS:
            self.broken = TOO_MUCH
        if not banned:
            return mask
        mask = self._binder.without(mask, banned)
        if not mask.any():
            self.broken = ONLY_BANNED
        return mask


class Binder:
    """The threads, one for building and one for following, and the vocabulary that all bindings share.

    poisoned  for tests: a mask lets nothing through before it is ready, and from when it was drawn by
    """

    def __init__(self, vocab_size: int, eos_token_ids: Sequence[int], *, poisoned: bool = False) -> None:
        self.poisoned = poisoned
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="grammar-build")
        self._follower = ThreadPoolExecutor(1, thread_name_prefix="grammar-follow")
        self._follows: deque[Callable[[], None]] = deque()
        self._done = threading.Condition()  # notified when a thread has done all there was
        self._table: TokenTable | None = None
        self._tokenizer: str | None = None

    def learn(self, tokenizer: str) -> None:
        """The tokenizer, as its library writes it; once, before the first grammar."""
        self._tokenizer = tokenizer

    def bind(self, constraint: Constraint, committed: Sequence[int]) -> Binding:
        """A request's binding, which is not ready yet. RequestError if grammars cannot be had here."""
        if self._tokenizer is None or not self._eos_token_ids:
            raise RequestError("grammars need a tokenizer and an end-of-sequence token")
        binding = Binding(constraint, self)
        binding.begin(committed)
        return binding

    @property
    def table(self) -> TokenTable:
        """Made by whichever thread needs it first: it takes a fraction of a second."""
        if self._table is None:
            assert self._tokenizer is not None
            self._table = TokenTable(self._tokenizer, self._vocab_size, self._eos_token_ids)
        return self._table

    def wait_for(self, is_over: Callable[[], bool], timeout_s: float) -> bool:
        """Whether something that a thread brings about is over, by then at the latest."""
        with self._done:
            return self._done.wait_for(is_over, timeout_s)

    def build(self, job: Callable[[], None]) -> None:
        self._builder.submit(self._build, job)

    def _build(self, job: Callable[[], None]) -> None:
        job()
        self._tell()

    def follow(self, job: Callable[[], None]) -> None:
        """In the order of calls. A step's jobs come one after the other: all but the first find the thread at work."""
        self._follows.append(job)
        if len(self._follows) == 1:
            self._follower.submit(self._follow_all)

    def _follow_all(self) -> None:
        while self._follows:
            self._follows[0]()
            self._follows.popleft()  # only now: who calls meanwhile sees that the thread is at work
        self._tell()

    def _tell(self) -> None:
        with self._done:
            self._done.notify_all()

    def nothing(self) -> Mask:
        """A mask of no token."""
        return np.zeros(-(-self._vocab_size // 32), dtype=np.int32)

    def without(self, mask: Mask | None, banned: Sequence[int]) -> Mask:
        """A mask, of all tokens if there is none, that does not let these through."""
        words = -(-self._vocab_size // 32)
        found = np.full(words, 0xFFFFFFFF, dtype=np.uint32) if mask is None else mask.view(np.uint32)
        for token in banned:
            found[token // 32] &= np.uint32(0xFFFFFFFF ^ (1 << token % 32))
        return found.view(np.int32)
