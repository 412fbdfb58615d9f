"""The one event stream of a choice: token events become parts of an answer, log-probs and an end.

A plain answer is this stream, collected. The result does not depend on how tokens were spread over events.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field

from dayzero.core.events import FinishReason, Logprob, TokenEvent
from dayzero.errors import InternalError, RequestError
from dayzero.gateway.errors import DeadlinePassed
from dayzero.gateway.guard import Collapsed
from dayzero.gateway.reading import Reading
from dayzero.grammar.parts import Part, Text, joined
from dayzero.grammar.window import Marker, Piece
from dayzero.text.detokenizer import Detokenizer
from dayzero.text.stop import StopMatcher
from dayzero.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Scored:
    """A token beside its log-probability, None for the first of a prompt.

    offset   characters of the choice's text before the token
    """

    token: int
    offset: int
    logprob: Logprob | None


@dataclass(frozen=True, slots=True)
class Delta:
    """What a choice gained. `finish` is "stop" or "length" in its last delta, else None.

    scored         tokens whose text is out now, with it or before it
    token_ids      tokens generated since the last delta, their text being out or not
    cached_tokens  in the first delta: prompt tokens that the engine had in its cache; in others None
    stop           in the last delta: the stop string that ended the output, if one did
    collapse       in the last delta: what the guard did about an output that repeated itself
    """

    index: int
    parts: Sequence[Part] = ()
    finish: str | None = None
    scored: list[Scored] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    cached_tokens: int | None = None
    stop: str | None = None
    collapse: Collapsed | None = None

    @property
    def text(self) -> str:
        """Of the answer itself: without reasoning and calls."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRules:
    """How the tokens of a request's choices are shown.

    scored           log-probs were asked for
    score_end        the end-of-sequence token has a log-prob too, though it is no text: completions, not chat
    show_stop        the stop string, and the text of a stop token, are part of the output
    reading          what is reasoning and what is a call; None: all of it is text. No stop string ends reasoning
    bound_by         the field that outputs are bound by, for the error if they cannot be
    """

    stops: tuple[str, ...] = ()
    show_stop: bool = False
    skip_special: bool = True
    scored: bool = False
    score_end: bool = False
    reading: Reading | None = None
    bound_by: str | None = None


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt that is shown before its output.

    shows_special   its control tokens are part of the text: it was given as text
    """

    text: str
    tokens: Sequence[int]
    shows_special: bool


class ChoiceStream:
    """One choice of one prompt. `push` each event in order, until `is_finished`.

    num_tokens            tokens generated, up to the one that completed a stop string or ended the sequence
    num_reasoning_tokens  those of them that the model thought with
    cached_tokens         prompt tokens that the engine had in its cache
    """

    def __init__(self, index: int, tokenizer: Tokenizer, rules: StreamRules, echo: Echo | None = None) -> None:
        self.index = index
        self.num_tokens = 0
        self.num_reasoning_tokens = 0
        self.cached_tokens = 0
        self.is_finished = False
        self._has_begun = False  # a delta is out
        self._tokenizer = tokenizer
        self._rules = rules
        self._echo = echo
        self._offset = 0 if echo is None else len(echo.text)
        self._detokenizer = Detokenizer(tokenizer, skip_special=rules.skip_special)
        self._matcher = StopMatcher(rules.stops, include_stop=rules.show_stop)
        self._parser = rules.reading.parser() if rules.reading is not None else None
        self._marker_of = rules.reading.marker_of if rules.reading is not None else {}
        self._markers: deque[tuple[int, Marker]] = deque()  # where those start that the matcher has not let out yet
        self._unreported: list[int] = []  # tokens since the last delta
        self._produced = 0  # characters that came out of the detokenizer
        self._withheld: list[tuple[int, int, Logprob]] = []  # start, end, log-prob of tokens whose text is not out

    def push(self, event: TokenEvent) -> Delta | None:
        """What the event brings to show, or None. Raises what the engine says went wrong."""
        if event.finish in FAILURES:
            raise failure_of(event, self._rules.bound_by)
        if event.cached_tokens is not None:
            self.cached_tokens = event.cached_tokens
        echo = self._take_echo(event)
        if self._rules.stops or self._rules.scored or self._parser is not None:
            parts, scored, count = self._push_singly(event)
        else:
            parts, scored, count = self._push_together(event)
        self.num_tokens += count
        finish = self._finish(event)
        if echo is not None:
            parts = joined([Text(echo.text), *parts])
            scored = echo.scored + scored
        token_ids = self._unreported + event.tokens[:count] if self._unreported else event.tokens[:count]
        if not parts and finish is None and not scored:
            self._unreported = token_ids
            return None
        self._unreported = []
        cached_tokens = None if self._has_begun else self.cached_tokens
        self._has_begun = True
        return Delta(self.index, parts, finish, scored, token_ids, cached_tokens, self._matcher.matched)

    def _push_together(self, event: TokenEvent) -> tuple[list[Part], list[Scored], int]:
        """The hot path: nothing depends on which token ends where."""
        tokens = event.tokens
        if event.finish is None:
            text = self._detokenizer.push(tokens)
        else:
            text = self._detokenizer.push(self._without_end(event)) + self._detokenizer.finish()
        return [Text(text)] if text else [], [], len(tokens)

    def _push_singly(self, event: TokenEvent) -> tuple[list[Part], list[Scored], int]:
        """Token by token, so that a stop string ends the choice at the same token however they came."""
        parts: list[Part] = []
        scored: list[Scored] = []
        num_shown = len(self._without_end(event))
        for i, token in enumerate(event.tokens):
            start = self._produced
            self.num_reasoning_tokens += self.is_reasoning
            if i < num_shown:
                parts += self._shown(self._pieces(token))
            if event.logprobs is not None and (i < num_shown or self._rules.score_end):
                self._withheld.append((start, self._produced, event.logprobs[i]))
            if self._matcher.is_stopped:
                return joined([*parts, *self._ended()]), scored + self._release(), i + 1
            scored += self._release()
        if event.finish is not None:
            rest = self._detokenizer.finish()
            parts += self._shown([rest] if rest else [])
            parts += self._read(self._cut(self._matcher.finish()))
            parts += self._ended()
            scored += self._release(is_last=True)
        return joined(parts), scored, len(event.tokens)

    @property
    def is_reasoning(self) -> bool:
        """What comes next belongs to what the model thinks, as far as is known."""
        return self._parser is not None and self._parser.is_reasoning

    @property
    def has_misread(self) -> bool:
        """A call has begun that was not read to its end, or was none."""
        return self._parser is not None and self._parser.has_misread

    def would_stop(self, tokens: Sequence[int]) -> bool:
        """Whether these tokens, if they were pushed, would complete a stop string."""
        if not self._rules.stops or self.is_reasoning:
            return False
        matcher = copy(self._matcher)
        matcher.push(copy(self._detokenizer).push(tokens))
        return matcher.is_stopped

    def _pieces(self, token: int) -> list[Piece]:
        """What a token brings: text, or a marker, which ends whatever character was under way."""
        marker = self._marker_of.get(token)
        text = self._detokenizer.push((token,)) if marker is None else self._detokenizer.finish()
        pieces: list[Piece] = [text] if text else []
        return pieces if marker is None else [*pieces, marker]

    def _shown(self, pieces: Iterable[Piece]) -> list[Part]:
        """The parts that pieces complete, once no stop string can begin in them."""
        parts: list[Part] = []
        for piece in pieces:
            if isinstance(piece, Marker):
                self._markers.append((self._produced, piece))
            self._produced += len(piece)
            let = self._matcher.release if self.is_reasoning else self._matcher.push
            parts += self._read(self._cut(let(piece)))
        return parts

    def _cut(self, text: str) -> Iterator[Piece]:
        """Text that the matcher let out, with its markers as such again; what is left of a marker is dropped."""
        start, end = self._matcher.released - len(text), self._matcher.released
        while self._markers and self._markers[0][0] < end:
            at, marker = self._markers.popleft()
            if at > start:
                yield text[: at - start]
            if at + len(marker) <= end:
                yield marker
            text, start = text[at + len(marker) - start :], at + len(marker)
        if text:
            yield text

    def _read(self, pieces: Iterable[Piece]) -> list[Part]:
        if self._parser is None:
            return [Text(piece) for piece in pieces]
        return self._kept(self._parser.push(list(pieces)))

    def _ended(self) -> list[Part]:
        return [] if self._parser is None else self._kept(self._parser.finish())

    def _kept(self, parts: list[Part]) -> list[Part]:
        """Text beside calls that must come is the beginning of one that was cut."""
        reading = self._rules.reading
        if reading is None or not reading.only_calls:
            return parts
        return [part for part in parts if not isinstance(part, Text)]

    def _without_end(self, event: TokenEvent) -> list[int]:
        """The tokens that are text: an end-of-sequence or stop token is not, unless it was asked for."""
        if event.finish is FinishReason.STOP and not self._rules.show_stop:
            return event.tokens[:-1]
        return event.tokens

    def _release(self, *, is_last: bool = False) -> list[Scored]:
        """Tokens whose text is out; at a stop string, those that began before the cut.

        A token without text, such as the first byte of a character, goes with the next one that has some.
        """
        if not self._withheld:
            return []
        out = self._matcher.released
        if is_last and not self._matcher.is_stopped:
            count = len(self._withheld)
        elif self._matcher.is_stopped:
            count = sum(start < out for start, _, _ in self._withheld)
        else:
            count = max((i + 1 for i, (start, end, _) in enumerate(self._withheld) if start < end <= out), default=0)
        released, self._withheld = self._withheld[:count], self._withheld[count:]
        return [Scored(logprob.token, self._offset + start, logprob) for start, _, logprob in released]

    def _finish(self, event: TokenEvent) -> str | None:
        if self._matcher.is_stopped or event.finish is FinishReason.STOP:
            self.is_finished = True
            return "stop"
        if event.finish is FinishReason.LENGTH:
            self.is_finished = True
            return "length"
        return None

    def _take_echo(self, event: TokenEvent) -> "_EchoDelta | None":
        """The prompt's text and log-probs, with the first event."""
        if self._echo is None:
            return None
        echo, self._echo = self._echo, None
        if event.prompt_logprobs is None or not self._rules.scored:
            return _EchoDelta(echo.text, [])
        detokenizer = Detokenizer(self._tokenizer, skip_special=not echo.shows_special)
        lengths = [len(detokenizer.push((token,))) for token in echo.tokens]
        offset = (
            len(echo.text) - sum(lengths) - len(detokenizer.finish())
        )  # below 0: a beginning-of-sequence token that nobody wrote
        scored: list[Scored] = []
        for token, length, logprob in zip(echo.tokens, lengths, event.prompt_logprobs, strict=True):
            scored.append(Scored(token, max(0, offset), logprob))
            offset += length
        return _EchoDelta(echo.text, scored)


@dataclass(frozen=True, slots=True)
class _EchoDelta:
    text: str
    scored: list[Scored]


FAILURES = frozenset({FinishReason.ERROR, FinishReason.GRAMMAR, FinishReason.TIMEOUT, FinishReason.ABORT})


def failure_of(event: TokenEvent, bound_by: str | None = None) -> Exception:
    """What a terminal event of `FAILURES` is to the client. bound_by: the field that a grammar came from."""
    if event.finish is FinishReason.TIMEOUT:
        return DeadlinePassed("the request took longer than it may")
    if event.finish is FinishReason.GRAMMAR:
        told = event.error or "the grammar cannot be followed"
        return RequestError(told, param=bound_by, code="invalid_schema")
    if event.finish is FinishReason.ABORT:
        return InternalError("the engine ended a request that nobody had left")
    return InternalError(event.error or "the engine could not go on")
