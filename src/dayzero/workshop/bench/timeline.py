"""What happened to one request: when it was sent, when its outputs came, how it ended. Holds no text.

All times are seconds on the client's monotonic clock.
"""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """SUCCESSFUL: the stream reached its end. INCOMPLETE: we cut it, at the end of the run. FAILED: anything else."""

    SUCCESSFUL = "successful"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Failure:
    """`kind` is one of a few fixed words ("http 429", "disconnected", ...), to count by; `message` quotes no prompt."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What the server counted. `cached_tokens` None: it does not say."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One request. `outputs_s` are the arrivals of the chunks that carried output, in order.

    due_s    when the load plan wanted it sent; equal to `sent_s` in a closed loop
    ended_s  the last output or the finish reason, whichever came later; for a failure, when it was noticed
    """

    session: int
    turn: int
    due_s: float
    sent_s: float
    ended_s: float
    outputs_s: tuple[float, ...] = ()
    status: Status = Status.SUCCESSFUL
    failure: Failure | None = None
    usage: Usage | None = None
    retry_after_s: float | None = None

    @property
    def output_tokens(self) -> int:
        """As the server counted; without usage, one per chunk: a lower bound."""
        return self.usage.output_tokens if self.usage else len(self.outputs_s)
