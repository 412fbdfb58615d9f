"""What becomes of an output that begins to repeat itself: it ends there, or is tried again from what was shown.

Pure: told of the events of a choice, the guard says which of their tokens may be shown now, and after a finding how to
go on. Nothing that was shown is taken back. A run of one token is held until it breaks, so that its collapse stays
unseen; copies are out when they are found, and the output goes on behind them. All of it depends on the order of tokens
alone, not on how they were spread over events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from dayzero.core.events import Logprob, TokenEvent
from dayzero.core.sampling import SamplingParams
from dayzero.errors import ConfigError
from dayzero.text.collapse import Collapse, CollapseDetector
from dayzero.wire.messages import Submit

Mode = Literal["off", "stop", "retry"]

_LEAST_TEMPERATURE = 0.6
_WARMER = 0.2
_MOST_TEMPERATURE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """What a request wants done about a collapse.

    mode           "stop": end the output; "retry": first try again
    max_retries    of one choice
    banned_tokens  output tokens for which a retry must not draw what the loop was made of
    """

    mode: Mode = "off"
    max_retries: int = 2
    banned_tokens: int = 32


UNGUARDED = GuardPolicy()


def mode_of(name: str) -> Mode:
    """The mode of this name. ConfigError if there is none."""
    for mode in get_args(Mode):
        if mode == name:
            return mode  # type: ignore[no-any-return]
    raise ConfigError(f"no such mode of the collapse guard: {name}", hint=f"known: {', '.join(get_args(Mode))}")


@dataclass(frozen=True, slots=True)
class Collapsed:
    """What a client is told of the collapses of a choice.

    tier       of the last one
    attempts   how often it was tried again
    is_end     the output ended at the last one, after all attempts
    """

    tier: int
    attempts: int
    discarded_tokens: int
    is_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoughts:
    """How what a model thinks is told from its answer.

    starts       an output begins with it
    begin, end   the tokens around it; None: more than one, or none
    closing      what has to be written for the answer to follow
    """

    starts: bool = False
    begin: int | None = None
    end: int | None = None
    closing: Sequence[int] = ()


NO_THOUGHTS = Thoughts()


@dataclass(frozen=True, slots=True)
class Retry:
    """How a choice goes on. `forced` are tokens that count as output though no model drew them."""

    submit: Submit
    forced: list[int]


class Guard:
    """Watches one choice. `admit` the events of an attempt until one brings a finding, then `retry`.

    found     what was found in the last event, which ends the attempt
    unshown   the tokens before the finding that were held back
    """

    def __init__(
        self, policy: GuardPolicy, submit: Submit, spelt: Mapping[int, bytes], thoughts: Thoughts = NO_THOUGHTS
    ) -> None:
        """
        submit   of the first attempt
        spelt    the bytes of each token
        """
        constraint = submit.constraint
        self._is_bound = constraint is not None and bool(constraint.grammar) and not constraint.after_tokens
        self._thinks_freely = self._is_bound and thoughts.begin is not None and thoughts.end is not None
        self._detector = CollapseDetector(is_bound=self._is_bound and not (thoughts.starts and self._thinks_freely))
        self._thoughts = thoughts
        self._policy = policy
        self._submit = submit
        self._spelt = spelt
        self._shown: list[int] = []
        self._held: list[int] = []
        self._held_logprobs: list[Logprob] = []
        self._num_discarded = 0
        self._last: Collapse | None = None  # that was dealt with
        self._has_given_up = False
        self.attempts = 0
        self.found: Collapse | None = None
        self.unshown = TokenEvent(submit.request_id)

    @property
    def num_shown(self) -> int:
        """Output tokens that were let through."""
        return len(self._shown)

    def admit(self, event: TokenEvent) -> TokenEvent | None:
        """What of an event may be shown now. Of one with a finding, what comes after that is dropped.

        An output that ends by itself, in the very token of a finding too, is let through.
        """
        push, spelt, tokens = self._push_bound if self._is_bound else self._detector.push, self._spelt, event.tokens
        for count, token in enumerate(tokens, 1):
            found = push(token, spelt[token])
            if found is not None and (event.finish is None or count < len(tokens)):
                return self._cut(event, count, found)
        num_clean = self._detector.num_clean - len(self._shown)
        if event.finish is not None:
            num_clean = len(self._held) + len(tokens)
        if num_clean == len(tokens) and not self._held and not (self.attempts and event.cached_tokens):
            self._shown += tokens
            return event
        return self._show(event, num_clean)

    def _push_bound(self, token: int, spelt: bytes) -> Collapse | None:
        """A grammar binds what follows the model's thoughts, not these; known where tokens stand around them."""
        if self._thinks_freely and token in (self._thoughts.begin, self._thoughts.end):
            self._detector.is_bound = token == self._thoughts.end
        return self._detector.push(token, spelt)

    def _cut(self, event: TokenEvent, count: int, found: Collapse) -> TokenEvent | None:
        logprobs = None if event.logprobs is None else event.logprobs[:count]
        before = msgspec.structs.replace(event, tokens=event.tokens[:count], logprobs=logprobs, finish=None)
        shown = self._show(before, self._detector.num_clean - len(self._shown))
        self.found = found
        self.unshown = TokenEvent(event.request_id, self._held, logprobs=self._held_logprobs or None)
        self._held, self._held_logprobs = [], []
        return shown

    def _show(self, event: TokenEvent, count: int) -> TokenEvent | None:
        """So many of the tokens that were held and of the event's; the rest is held."""
        tokens = self._held + event.tokens
        logprobs = self._held_logprobs + (event.logprobs or [])
        self._shown += tokens[:count]
        self._held, self._held_logprobs = tokens[count:], logprobs[count:]
        if not count and event.finish is None:
            return None
        return msgspec.structs.replace(
            event,
            tokens=tokens[:count],
            logprobs=logprobs[:count] if logprobs else event.logprobs,
            cached_tokens=None if self.attempts else event.cached_tokens,  # later ones are found in what was shown
        )

    def retry(self, *, is_reasoning: bool) -> Retry | None:
        """How to go on after a finding; None: the output ends.

        is_reasoning   what was shown last is what the model thinks: it has thought enough
        """
        found, self.found = self.found, None
        assert found is not None, "nothing was found"
        self._last = found
        self._num_discarded += len(self.unshown.tokens)
        may_force = is_reasoning and (self._thinks_freely or not self._is_bound)
        forced = list(self._thoughts.closing) if may_force else []
        params = self._submit.params
        has_room = len(self._shown) + len(forced) < params.max_tokens
        if self._policy.mode != "retry" or self.attempts == self._policy.max_retries or not has_room:
            self._has_given_up = True
            return None
        self.attempts += 1
        self._detector.resume()
        self._shown += forced
        for token in forced:
            self._push_bound(token, self._spelt[token])
        if not forced:
            params = self._warmer(params, found.bans)
        params = msgspec.structs.replace(params, prompt_logprobs=None)  # they were told
        submit = msgspec.structs.replace(
            self._submit, params=params, committed=list(self._shown), attempt=self.attempts
        )
        return Retry(submit, forced)

    def report(self, finish: str) -> Collapsed | None:
        """What to say of a choice that ends with `finish`; None: nothing was found."""
        if self._last is None:
            return None
        is_end = self._has_given_up and finish == "length"
        return Collapsed(self._last.tier, self.attempts, self._num_discarded, is_end)

    def _warmer(self, params: SamplingParams, bans: tuple[int, ...]) -> SamplingParams:
        return msgspec.structs.replace(
            params,
            temperature=min(max(params.temperature, _LEAST_TEMPERATURE) + _WARMER, _MOST_TEMPERATURE),
            banned_tokens=bans,
            banned_until=len(self._shown) + self._policy.banned_tokens,
        )
