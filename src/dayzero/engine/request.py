"""One generation, or one embedding, and how far it has got."""

import enum
from dataclasses import dataclass, field

from dayzero.core.events import Logprob, RequestId
from dayzero.core.pooling import Pooling
from dayzero.core.prefix import BlockKey
from dayzero.core.sampling import SamplingParams
from dayzero.engine.binding import Binding
from dayzero.engine.pooling import Total
from dayzero.grammar.matcher import Mask
from dayzero.kv.blocks import BlockId


class RequestState(enum.Enum):
    """WAITING requests hold no blocks."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """A generation or, with `pooling`, an embedding. Only the scheduler changes it; everyone else reads.

    Prompt and output stay apart, so that penalties, limits and stops count alike after a preemption or a resumption.
    `output` starts with the committed output of the Submit; only what is appended later is reported.

        0 ........ num_computed ........ num_tokens        tokens of this request
        |  KV is in the blocks  |  wants to be computed  |

    Invariant: 0 <= num_computed <= num_tokens; while a request runs, num_computed < num_tokens between steps.
    """

    id: RequestId
    prompt: list[int]
    params: SamplingParams
    salt: str
    policy_version: str
    priority: int = 0
    deadline_s: float | None = None  # on the engine's clock
    choice: int = 0
    attempt: int = 0
    binding: Binding | None = None  # of its constraint
    mask: Mask | None = None  # of every token, where its constraint is bans alone
    pooling: Pooling | None = None
    output: list[int] = field(default_factory=list)
    state: RequestState = RequestState.WAITING
    arrival: int = 0  # order of arrival; kept over preemptions
    num_computed: int = 0
    block_tables: list[list[BlockId]] = field(default_factory=list)  # one per cache group
    block_keys: list[BlockKey] = field(default_factory=list)  # of the full blocks of its tokens so far
    cached_tokens: int | None = None  # prompt tokens that the first admission found cached
    prompt_logprobs: list[Logprob | None] | None = None  # of the leading prompt tokens, as far as they are computed
    pooled: Total | None = None  # of the tokens that are computed
    is_reported: bool = False  # its first event is out

    @property
    def is_held(self) -> bool:
        """What may come next is still being computed."""
        return self.binding is not None and not self.binding.is_ready

    @property
    def allowed(self) -> Mask | None:
        """Mask of the next token; None: all are allowed."""
        return self.mask if self.binding is None else self.binding.allowed

    @property
    def needs_every_row(self) -> bool:
        """What is asked wants something of each token that only computing it brings: a cached prefix is of no use."""
        return self.pooling in ("cls", "mean") or (self.params.prompt_logprobs is not None and not self.is_reported)

    @property
    def num_tokens(self) -> int:
        return len(self.prompt) + len(self.output)

    def tokens(self, start: int, stop: int) -> list[int]:
        """Prompt and output as one sequence, [start, stop)."""
        split = len(self.prompt)
        if stop <= split:
            return self.prompt[start:stop]
        if start >= split:
            return self.output[start - split : stop - split]
        return self.prompt[start:] + self.output[: stop - split]
