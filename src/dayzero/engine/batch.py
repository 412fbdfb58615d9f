"""The work of one step, and what came of it. Plain Python: the runner makes tensors of it."""

from dataclasses import dataclass
from typing import Protocol

from dayzero.core.events import Logprob
from dayzero.engine.pooling import Total
from dayzero.engine.request import Request


@dataclass(frozen=True, slots=True)
class Span:
    """One request's share of a step: compute its tokens [start, start + length).

    The span that reaches the request's last token samples the next one, or ends an embedding.
    """

    request: Request
    start: int
    length: int

    @property
    def stop(self) -> int:
        return self.start + self.length

    @property
    def samples(self) -> bool:
        return self.stop == self.request.num_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """The work of one step."""

    number: int
    spans: tuple[Span, ...]

    @property
    def num_tokens(self) -> int:
        return sum(span.length for span in self.spans)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step brought one span.

    tokens            accepted tokens, in order; empty if the span does not sample
    logprobs          one per token, if the request asked
    prompt_logprobs   for prompt positions [start + 1, stop] that exist, as the rows of this span see them, if asked
    pooled            of a request with `pooling`: the sum of its rows so far
    embedding         of such a request, if the span reaches its last token
    error             the request cannot go on (its logits are not finite, say); its neighbours can
    """

    tokens: tuple[int, ...] = ()
    logprobs: tuple[Logprob, ...] | None = None
    prompt_logprobs: tuple[Logprob, ...] | None = None
    pooled: Total | None = None
    embedding: bytes | None = None
    error: str | None = None


class Pending(Protocol):
    """A step that was launched and may not be done."""

    def collect(self) -> list[Outcome]:
        """One outcome per span, in order; waits."""
        ...


class Runner(Protocol):
    """Model, KV store, kernels and sampler behind one call. FakeRunner needs none of them."""

    def launch(self, batch: Batch) -> Pending: ...
