"""How the outputs of a request are read: by which format, for which tools, and where they begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dayzero.errors import RequestError
from dayzero.gateway.guard import NO_THOUGHTS, Thoughts
from dayzero.gateway.tools import ToolUse
from dayzero.grammar.format import Format
from dayzero.grammar.parser import Parser, parser_for
from dayzero.grammar.tools import Calls, Tool
from dayzero.grammar.window import Marker
from dayzero.text.tokenizer import Tokenizer

_TAIL_TOKENS = 16  # of a prompt, in which a template may have begun the model's reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What every choice of a request is parsed by.

    marker_of       the format's markers that are one token of this vocabulary, by its id
    token_ids       of these, and of what the model must never write
    thoughts        for the guard against repetition
    only_calls      an answer is bound to be calls
    may_think       under a grammar: the prompt has begun the model's thoughts, or has not ended them and the model has
                    a token that begins them. Others would be led into thoughts that they never end
    """

    format: Format
    tools: Sequence[Tool]
    calls: Calls
    parallel: bool
    starts_in_reasoning: bool
    marker_of: Mapping[int, Marker]
    token_ids: Mapping[str, int] = field(default_factory=dict)
    thoughts: Thoughts = NO_THOUGHTS
    only_calls: bool = False
    may_think: bool = True

    @property
    def bound_format(self) -> Format:
        """The format as grammars are to have it."""
        return self.format if self.may_think else replace(self.format, reasoning=None)

    def parser(self) -> Parser:
        """A new one, for one choice."""
        return parser_for(
            self.format,
            self.tools,
            starts_in_reasoning=self.starts_in_reasoning,
            marker_tokens=frozenset(self.marker_of.values()),
            calls=self.calls,
            parallel=self.parallel,
        )


class Reader:
    """What is known of a model's outputs before any request: the format that it writes, None for plain text."""

    def __init__(self, format: Format | None, tokenizer: Tokenizer) -> None:  # noqa: A002 - the word everywhere
        self._format = format
        self._tokenizer = tokenizer
        markup = tokenizer.markup
        markers = () if format is None else format.markers
        strings = () if format is None else (*markers, *format.forbidden)
        self._marker_of = {markup[marker]: Marker(marker) for marker in markers if marker in markup}
        self._token_ids = {string: markup[string] for string in strings if string in markup}
        begin, end = (format.reasoning if format is not None else None) or ("", "")
        closing = "" if format is None else format.reasoning_end
        self._thoughts = Thoughts(
            begin=markup.get(begin), end=markup.get(end), closing=tokenizer.encode(closing, special=True)
        )

    def check(self, use: ToolUse) -> None:
        """Refuse tools that nobody here knows how to call."""
        if use.tools and use.mode != "none" and self._format is None:
            raise RequestError(
                "this model's chat template has no tools",
                param="tools",
                hint="serve it with --tool-format, or set tool_choice to none",
            )

    def reading(self, use: ToolUse, prompt: Sequence[int]) -> Reading | None:
        """How to read what follows a prompt; None: as plain text."""
        if self._format is None:
            return None
        begin, end = self._format.reasoning or ("", "")
        tail = self._tokenizer.decode(prompt[-_TAIL_TOKENS:], skip_special=False).rstrip()
        is_begun = bool(begin) and tail.endswith(begin.rstrip())
        return Reading(
            format=self._format,
            tools=use.tools,
            parallel=use.parallel,
            calls="ignore" if not use.tools else "suppress" if use.mode == "none" else "parse",
            marker_of=self._marker_of,
            token_ids=self._token_ids,
            thoughts=replace(self._thoughts, starts=is_begun),
            starts_in_reasoning=is_begun,
            only_calls=use.must_call,
            may_think=is_begun or (begin in self._token_ids and not tail.endswith(end.rstrip())),
        )
